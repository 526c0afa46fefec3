import path from 'node:path'

import { currentVerdicts } from '@osmosis/eval'
import { formatCount, formatDuration, formatQuantity, formatReward } from '@osmosis/eval/analysis'

import { type Block, dim, heading, reportText, type Section } from '../../command/output/report.ts'
import type { Cell } from '../../command/terminal-text.ts'
import { failureAdvice, withoutProtocolNames } from './failure-lines.ts'
import { itemName, type StoredTranscripts, type ShownItem } from './shown-items.ts'
import { transcriptLines, type TranscriptOptions } from './transcript-text.ts'

/** A rollout as text: its facts, its outcome and its transcript. Without a line feed at the end. */
export async function rolloutText(shown: ShownItem, options: TranscriptOptions): Promise<string> {
  const { event, run } = shown
  const { reader } = run
  const said = saidLines(await reader.trajectories(event), shown, options)
  const outcome = [
    ...outcomeSection(shown),
    ...earlyEndSection(shown, await reader.earlyEnd(event)),
    ...stackSection(await reader.stack(event), shown),
    ...currentVerdicts(await reader.verdicts(), event).map(({ check, verdict, because, by }) => ({
      label: 'Audit',
      message: `${check} is ${verdict}: ${because} (${by})`,
    })),
  ]
  const title = titleBlock(shown)
  const head = [title, ...aboutSection(shown, await labelOf(shown)), ...outcome]
  // The outcome is repeated below a long transcript.
  const end = said.length > 20 ? ['', reportText([[title, ...outcome]], options.width)] : []
  return [reportText([head], options.width), '', ...said, ...end].join('\n')
}

/** `12.1  reward 1, passed  …`: the first line of a rollout. */
function titleBlock(shown: ShownItem): Block {
  const { event, run, item } = shown
  const { table } = run
  const { text: value, format = 'reset' } = rewardCell(shown)
  const verdict =
    event.status === 'success' ? (table.passed(item) ? 'passed' : 'not passed') : event.status
  const score = table.value(item) === null ? `no ${table.measure}` : `${table.measure} ${value}`
  const flags = flagsText(shown)
  return {
    facts: [
      heading(itemName(shown)),
      { text: `${score}, ${verdict}`, format },
      ...(flags === '' ? [] : [{ text: flags, format: 'yellow' } as const]),
    ],
    separator: '  ',
  }
}

function aboutSection(shown: ShownItem, label: string | null): Section {
  const { event, run, item } = shown
  const { document } = run.table
  const about = [
    run.name,
    document.model,
    `row ${event.source_row_index} of ${document.dataset}`,
    ...Object.entries(run.table.facets(run.table.group(item))).map((facet) => facet.join(' ')),
  ]
  return [
    { facts: about.map(dim), separator: dim(' · ') },
    dim(costText(shown)),
    label === null ? undefined : { label: 'Label', message: label },
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
function outcomeSection({ event, run, item }: ShownItem): Section {
  const { metrics, scores = {}, score_errors: scoreErrors = {}, samples } = event
  const { error_message: error, error_type: type } = event
  const numbers = [...Object.entries(metrics), ...Object.entries(scores)].map(
    ([name, value]) => `${name} ${formatReward(value)}`,
  )
  const note = run.table.note(item)
  return [
    Object.keys(samples).length > 1
      ? { label: 'Samples', message: rewardsText(samples) }
      : undefined,
    numbers.length > 0 ? { label: 'Scores', message: numbers.join(', ') } : undefined,
    ...Object.entries(scoreErrors).map(([name, message]): Block => ({
      label: `No ${name}`,
      message,
      format: 'red',
    })),
    ...(error === null
      ? []
      : [
          {
            label: type ?? 'Error',
            message: withoutProtocolNames(error),
            format: 'red' as const,
          },
          ...failureAdvice(type ?? '', error, run.reader.manifest).map((message): Block => ({
            label: '',
            message,
            format: 'yellow',
          })),
        ]),
    note && { label: 'Note', message: [note.tag, note.text].filter(Boolean).join(': ') },
  ]
}

/** What ended `run()` although the rollout is graded; the error behind it, where the log has it. */
function earlyEndSection({ event }: ShownItem, error: string | undefined): Section {
  const { limit, model_error: fault } = event
  const [name, reason] = limit === undefined ? ['model_error', fault] : ['limit_reached', limit]
  if (reason === undefined) return []
  const message = error === undefined ? reason : `${reason}: ${error}`
  return [{ label: name, message, format: 'yellow' }]
}

/** The stack of an error that user code threw, and the file with the whole output. */
function stackSection(stack: string | undefined, { run }: ShownItem): Section {
  if (stack === undefined) return []
  const log = path.join(run.reader.location, 'logs.txt')
  return [
    { label: 'Stack', message: stack },
    { label: '', message: `The whole output: ${log}`, format: 'dim' },
  ]
}

function rewardsText(samples: ShownItem['event']['samples']): string {
  return Object.entries(samples)
    .map(([id, reward]) => `${id} ${reward === null ? '–' : formatReward(reward)}`)
    .join(', ')
}

function saidLines(
  said: StoredTranscripts,
  { event }: ShownItem,
  options: TranscriptOptions,
): string[] {
  const drawn = (text: Cell): string[] => [reportText([[text]], options.width)]
  if (said.state === 'damaged') {
    return drawn({ text: 'The transcript is damaged: its file has been changed.', format: 'red' })
  }
  if (said.state === 'missing') {
    return event.trajectory_place === null
      ? drawn({ text: 'No transcript: the rollout never called the policy.', format: 'yellow' })
      : drawn({ text: 'The transcript is missing: its file does not exist.', format: 'red' })
  }
  const samples = Object.entries(said.value)
  return samples.flatMap(([id, trajectory], at) => {
    const reward = event.samples[id]
    const title = `── ${id}${typeof reward === 'number' ? `, reward ${formatReward(reward)}` : ''} ──`
    return [
      ...(samples.length > 1 ? [...(at === 0 ? [] : ['']), ...drawn(heading(title))] : []),
      ...transcriptLines(trajectory, options),
    ]
  })
}

async function labelOf({ run, event }: ShownItem): Promise<string | null> {
  const graded = await run.reader.graded(event)
  return graded.state === 'found' ? graded.value.label : null
}

/** A table of items: name, reward, flags and the end of the conversation. */
export function itemTable(items: readonly ShownItem[]): Block {
  const measure = items[0]?.run.table.measure ?? 'reward'
  const rows = items.map((shown) => [
    itemName(shown),
    rewardCell(shown),
    flagsCell(shown),
    endCell(shown),
  ])
  const head = ['Rollout', measure === 'reward' ? 'Reward' : measure, 'Flags', 'Ends with']
  return { head: head, table: rows, right: [1], cutsLast: true }
}

/** The reward or score of an item; a dash without one. */
function rewardCell({ run: { table }, item }: ShownItem): Cell {
  const value = table.value(item)
  return {
    text: value === null ? '–' : formatReward(value),
    format: table.passed(item) ? 'green' : 'red',
  }
}

/** `stuck ×5, cut`: the flags of an item, with the number of failed tool calls. */
function flagsText({ run: { table }, item, event }: ShownItem): string {
  return table
    .flags(item)
    .map((flag) => {
      if (flag === 'failed') return event.error_type ?? flag
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
  const isBad = (['suspicious', 'failed', 'stuck', 'nocalls'] as const).some((flag) =>
    shown.run.table.has(shown.item, flag),
  )
  return { text: flagsText(shown), format: isBad ? 'red' : 'yellow' }
}

function endCell({ event: { status, error_message: error, summary } }: ShownItem): Cell {
  return { text: error ?? summary, ...(status === 'failed' && { format: 'red' }) }
}
