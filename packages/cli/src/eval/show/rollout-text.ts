import path from 'node:path'

import {
  currentVerdicts,
  formatCount,
  formatDuration,
  formatQuantity,
  formatReward,
} from '@osmosis/eval'

import {
  onOneLine,
  packed,
  plain,
  styled,
  wrapped,
  tableLines,
  type Cell,
} from '../../command/terminal-text.ts'
import { failureAdvice, withoutProtocolNames } from './failure-lines.ts'
import { itemName, type Said, type ShownItem } from './shown-items.ts'
import { transcriptLines, type TranscriptOptions } from './transcript-text.ts'

/** A rollout as text: its facts, its outcome and its transcript. */
export async function rolloutLines(
  shown: ShownItem,
  options: TranscriptOptions,
): Promise<string[]> {
  const { reader } = shown.run
  const said = await reader.trajectories(shown.event)
  const lines = saidLines(said, shown, options)
  const stack = await reader.stack(shown.event)
  const verdicts = currentVerdicts(await reader.verdicts(), shown.event)
  const outcome = [
    ...outcomeLines(shown, options),
    ...stackLines(stack, shown, options),
    ...verdicts.flatMap(({ check, verdict, because, by }) =>
      field('Audit', `${check} is ${verdict}: ${because} (${by})`, options.width),
    ),
  ]
  const head = [...headLines(shown, options, await labelOf(shown)), ...outcome, '', ...lines]
  // The outcome is repeated below a long transcript.
  return lines.length > 20 ? [...head, '', titleLine(shown), ...outcome] : head
}

/** `12.1  reward 1, passed  …`: the first line of a rollout. */
function titleLine(shown: ShownItem): string {
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

/** The whole error, and everything that the grader returned. */
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

/** The stack of an error that user code threw, and the file with the whole output. */
function stackLines(
  stack: string | undefined,
  { run }: ShownItem,
  { width }: TranscriptOptions,
): string[] {
  if (stack === undefined) return []
  const log = path.join(run.reader.location, 'logs.txt')
  return [
    ...field('Stack', stack, width),
    ...field('', `The whole output: ${log}`, width).map((line) => styled('dim', line)),
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
    return [styled('red', 'The transcript is damaged: its file has been changed.')]
  }
  if (said.state === 'missing') {
    return [
      event.trajectory_place === null
        ? styled('yellow', 'No transcript: the rollout never called the policy.')
        : styled('red', 'The transcript is missing: its file does not exist.'),
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

/** A table of items: name, reward, flags and the end of the conversation. */
export function itemLines(items: readonly ShownItem[], width: number): string[] {
  const measure = onOneLine(items[0]?.run.table.measure ?? 'reward')
  const value = measure === 'reward' ? 'Reward' : measure
  const head = ['Rollout', value, 'Flags', 'Ends with'].map((text): Cell => ({
    text,
    format: 'dim',
  }))
  const rows = items.map((shown) => [
    itemName(shown),
    rewardCell(shown),
    flagsCell(shown),
    endCell(shown),
  ])
  return tableLines([head, ...rows], { right: [1], width })
}

/** The reward or score of an item; a dash without one. */
function rewardCell({ run: { table }, item }: ShownItem): Cell {
  const value = table.value(item)
  const text = value === null ? '–' : formatReward(value)
  return { text, format: table.passed(item) ? 'green' : 'red' }
}

/** `stuck ×5, cut`: the flags of an item, with the number of failed tool calls. */
function flagsText({ run: { table }, item, event }: ShownItem): string {
  return table
    .flags(item)
    .map((flag) => {
      if (flag === 'failed') return onOneLine(event.error_type ?? flag)
      if (flag === 'stuck' || flag === 'toolerror') {
        return `${flag}${event.tool_errors > 1 ? ` ×${event.tool_errors}` : ''}`
      }
      return flag
    })
    .filter(
      (flag, _, all) =>
        !flag.startsWith('toolerror') || !all.some((one) => one.startsWith('stuck')),
    )
    .join(', ')
}

function flagsCell(shown: ShownItem): Cell {
  const { table } = shown.run
  const isBad = (['suspicious', 'failed', 'stuck', 'nocalls'] as const).some((flag) =>
    table.has(shown.item, flag),
  )
  return { text: flagsText(shown), format: isBad ? 'red' : 'yellow' }
}

function endCell({ event }: ShownItem): Cell {
  const text = onOneLine(event.error_message ?? event.summary)
  return event.status === 'failed' ? { text, format: 'red' } : { text }
}
