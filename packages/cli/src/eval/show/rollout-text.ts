import path from 'node:path'

import { formatCount, formatDuration, formatQuantity, formatReward } from '@osmosis/eval'

import { onOneLine, packed, plain, styled, wrapped } from '../../command/terminal-text.ts'
import { failureAdvice, withoutProtocolNames } from './failure-lines.ts'
import { rewardCell, flagsText } from './item-list.ts'
import { itemName, type Said, type ShownItem } from './shown-items.ts'
import { transcriptLines, type TranscriptOptions } from './transcript-text.ts'

/** A rollout as people read it: what it was, what was said, and what came of it. */
export async function rolloutLines(
  shown: ShownItem,
  options: TranscriptOptions,
): Promise<string[]> {
  const { reader } = shown.run
  const said = await reader.trajectories(shown.event)
  const lines = saidLines(said, shown, options)
  const stack = await reader.stack(shown.event)
  const outcome = [...outcomeLines(shown, options), ...stackLines(stack, shown, options)]
  const head = [...headLines(shown, options, await labelOf(shown)), ...outcome, '', ...lines]
  // Whoever has read a long talk to its end does not scroll back for what came of it.
  return lines.length > 20 ? [...head, '', titleLine(shown), ...outcome] : head
}

/** `12.1  reward 1, passed  …`: what stands above everything. */
export function titleLine(shown: ShownItem): string {
  const { event, run, item } = shown
  const { table } = run
  const { text, format = 'reset' } = rewardCell(shown)
  const measure = onOneLine(table.measure)
  const verdict =
    event.status === 'success' ? (table.passed(item) ? 'passed' : 'not passed') : event.status
  const outcome = styled(
    format,
    `${table.value(item) === null ? `no ${measure}` : `${measure} ${text}`}, ${verdict}`,
  )
  const flags = flagsText(shown)
  return [
    styled('bold', itemName(shown)),
    outcome,
    ...(flags === '' ? [] : [styled('yellow', flags)]),
  ].join('  ')
}

function headLines(shown: ShownItem, { width }: TranscriptOptions, label: string | null): string[] {
  const { event, run, item } = shown
  const { table } = run
  const facets = Object.entries(table.facets(table.group(item)))
  const facts = [
    run.name,
    onOneLine(table.document.model),
    `row ${event.source_row_index} of ${onOneLine(table.document.dataset)}`,
    ...facets.map(([name, value]) => `${onOneLine(name)} ${onOneLine(value)}`),
  ]
  return [
    titleLine(shown),
    ...packed(facts, ' · ', width).map((line) => styled('dim', line)),
    ...wrapped(costText(shown), width).map((line) => styled('dim', line)),
    ...(label === null ? [] : field('Label', label, width)),
  ]
}

function costText({ event }: ShownItem): string {
  const { calls, tool_calls: tools, completion_tokens: written, prompt_tokens: read } = event
  return [
    formatQuantity(calls, 'model call'),
    ...(tools > 0 ? [formatQuantity(tools, 'tool call')] : []),
    ...(written === null ? [] : [`${formatQuantity(written, 'token')} written`]),
    ...(read === null ? [] : [`${formatCount(read)} read`]),
    formatDuration(event.duration_ms),
  ].join(', ')
}

/** The error, whole; and everything that the grader gave. */
function outcomeLines(shown: ShownItem, { width }: TranscriptOptions): string[] {
  const { event, run } = shown
  const { metrics, scores = {}, score_errors: scoreErrors = {}, samples } = event
  const numbers = [...Object.entries(metrics), ...Object.entries(scores)]
  const note = run.table.note(shown.item)
  return [
    ...(Object.keys(samples).length > 1 ? field('Samples', rewardsText(samples), width) : []),
    ...(numbers.length > 0
      ? field(
          'Scores',
          numbers.map(([name, value]) => `${onOneLine(name)} ${formatReward(value)}`).join(', '),
          width,
        )
      : []),
    ...Object.entries(scoreErrors).flatMap(([name, error]) =>
      field(`No ${onOneLine(name)}`, error, width, 'red'),
    ),
    ...(event.error_message === null
      ? []
      : [
          ...field(
            event.error_type ?? 'Error',
            withoutProtocolNames(event.error_message),
            width,
            'red',
          ),
          ...failureAdvice(
            event.error_type ?? '',
            event.error_message,
            run.reader.manifest,
          ).flatMap((text) => field('', text, width, 'yellow')),
        ]),
    ...(note === undefined
      ? []
      : field('Note', [note.tag, note.text].filter(Boolean).join(': '), width)),
  ]
}

/** Where what user code threw comes from, and where more of it may be. */
function stackLines(
  stack: string | undefined,
  { run }: ShownItem,
  { width }: TranscriptOptions,
): string[] {
  if (stack === undefined) return []
  const log = path.join(run.reader.location, 'logs.txt')
  return [
    ...field('Stack', stack, width),
    ...field('', `All that was printed: ${log}`, width).map((line) => styled('dim', line)),
  ]
}

function rewardsText(samples: ShownItem['event']['samples']): string {
  return Object.entries(samples)
    .map(([id, reward]) => `${onOneLine(id)} ${reward === null ? '–' : formatReward(reward)}`)
    .join(', ')
}

function field(label: string, text: string, width: number, format?: 'red' | 'yellow'): string[] {
  const head = label === '' ? '' : `${styled(format ?? 'dim', plain(label))}  `
  const lines = wrapped(text.trim(), width - 2)
  const [only = ''] = lines
  const look = (line: string): string =>
    format === undefined || line === '' ? line : styled(format, line)
  if (lines.length === 1 && label.length + 2 + only.length <= width) return [`${head}${look(only)}`]
  return [
    ...(head === '' ? [] : [head.trimEnd()]),
    ...lines.map((line) => `  ${look(line)}`.trimEnd()),
  ]
}

function saidLines(said: Said, { event }: ShownItem, options: TranscriptOptions): string[] {
  if (said.state === 'damaged') {
    return [
      styled('red', 'The transcript is damaged: what is in its file is not what was written.'),
    ]
  }
  if (said.state === 'missing') {
    return [
      event.at === null
        ? styled('yellow', 'Nothing was said: the policy was not asked.')
        : styled('red', 'The transcript is missing: its file is gone.'),
    ]
  }
  const samples = Object.entries(said.value)
  return samples.flatMap(([id, trajectory], at) => {
    const reward = event.samples[id]
    const title = `── ${onOneLine(id)}${typeof reward === 'number' ? `, reward ${formatReward(reward)}` : ''} ──`
    return [
      ...(samples.length > 1 ? [...(at === 0 ? [] : ['']), styled('bold', title)] : []),
      ...transcriptLines(trajectory, options),
    ]
  })
}

async function labelOf({ run, event }: ShownItem): Promise<string | null> {
  const graded = await run.reader.graded(event)
  return graded.state === 'found' ? graded.value.label : null
}
