import type { TrainedConversation } from '@osmosis/core/policy'
import type { GradedRollout } from '@osmosis/eval'
import { type ItemEvent, type RunTable, rolloutName } from '@osmosis/eval/analysis'
import { validateTrajectory, type Trajectory } from '@osmosis/protocol/trajectory'

type Cell = string | number | boolean | null

/** The table of rollouts as lines of CSV with a header: RFC 4180, with CRLF after each line. */
export function* csvLines(events: readonly ItemEvent[], table: RunTable): Generator<string> {
  const columns = columnsOf(events, table)
  yield toLine(columns.map(([head]) => head))
  for (const event of events) {
    const item = table.find(event.source_row_index, event.run_index) ?? 0
    yield toLine(columns.map(([, read]) => read(event, item)))
  }
}

type Column = readonly [head: string, read: (event: ItemEvent, item: number) => Cell]

function columnsOf(events: readonly ItemEvent[], table: RunTable): Column[] {
  const facets = Object.keys(table.document.rows.facets).toSorted()
  const scores = namesIn(events.map((event) => event.scores))
  const metrics = namesIn(events.map((event) => event.metrics))
  return [
    ['row', (event) => event.source_row_index],
    ['attempt', (event) => event.run_index + 1],
    ['row_key', (event) => event.row_key],
    ['rollout_id', (event) => event.rollout_id],
    ['model', () => table.document.model],
    ['status', (event) => event.status],
    ['passed', (_event, item) => table.passed(item)],
    ['reward', (event) => event.reward],
    ...scores.map((name): Column => [`score.${name}`, (event) => event.scores?.[name] ?? null]),
    ...metrics.map((name): Column => [`metric.${name}`, (event) => event.metrics[name] ?? null]),
    ...facets.map((name): Column => [
      `facet.${name}`,
      (_event, item) => table.facets(table.group(item))[name] ?? null,
    ]),
    ['error_type', (event) => event.error_type],
    ['error_message', (event) => event.error_message],
    ['calls', (event) => event.calls],
    ['tool_calls', (event) => event.tool_calls],
    ['tool_errors', (event) => event.tool_errors],
    ['tools', (event) => event.tools.map(({ name }) => name).join(' ')],
    ['finish', (event) => Object.keys(event.finish).join(' ')],
    ['rewritten', (event) => event.rewritten],
    ['limit', (event) => event.limit ?? null],
    ['model_error', (event) => event.model_error ?? null],
    ['prompt_tokens', (event) => event.prompt_tokens],
    ['completion_tokens', (event) => event.completion_tokens],
    ['cost_usd', (event) => event.cost_usd],
    ['duration_ms', (event) => event.duration_ms],
    ['ended_at', (event) => event.ended_at],
    ['flags', (_event, item) => table.flags(item).join(' ')],
    ['tag', (_event, item) => table.note(item)?.tag ?? null],
    ['note', (_event, item) => table.note(item)?.text ?? null],
    ['summary', (event) => event.summary],
  ]
}

function namesIn(of: readonly (Readonly<Record<string, unknown>> | undefined)[]): string[] {
  return [...new Set(of.flatMap((values) => Object.keys(values ?? {})))].toSorted()
}

function toLine(cells: readonly Cell[]): string {
  return `${cells.map(toCell).join(',')}\r\n`
}

function toCell(value: Cell): string {
  if (value === null) return ''
  const text = typeof value === 'string' ? guarded(value) : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Spreadsheets evaluate a text that begins like a formula, and a model may write one: an apostrophe in front
 * makes it plain text.
 */
function guarded(text: string): string {
  return /^[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/.test(text) ? `'${text}` : text
}

/** A document of a sample, and the name of its file. */
export interface SampleDocument {
  readonly name: string
  readonly text: string
}

/** The documents of a rollout with its current rewards, and the problems of documents that are not valid. */
export function atifDocuments(
  event: ItemEvent,
  trajectories: Readonly<Record<string, Trajectory>>,
): { readonly documents: readonly SampleDocument[]; readonly problems: readonly string[] } {
  const all = Object.entries(trajectories)
  const place = rolloutName(event)
  const documents: SampleDocument[] = []
  const problems: string[] = []
  const taken = new Set<string>()
  for (const [id, trajectory] of all) {
    const document = withReward(trajectory, event.samples[id] ?? null)
    const found = validateTrajectory(document)
    if (found.length > 0) {
      problems.push(`${place} ${id}: ${found.join('; ')}`)
      continue
    }
    const name = all.length === 1 ? place : uniqueName(`${place}.${safeName(id)}`, taken)
    documents.push({ name: `${name}.json`, text: `${JSON.stringify(document, null, 2)}\n` })
  }
  return { documents, problems }
}

/** Replaces the reward in the stored document: the rollout may have been graded again. */
function withReward(trajectory: Trajectory, reward: number | null): Trajectory {
  const osmosis = (trajectory.extra?.['osmosis'] ?? {}) as Readonly<Record<string, unknown>>
  const { reward: _, ...rest } = osmosis
  const own = reward === null ? rest : { ...rest, reward }
  return { ...trajectory, extra: { ...trajectory.extra, osmosis: own } }
}

const longestName = 80

/** Sample ids may contain any character. */
function safeName(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, longestName)
}

function uniqueName(name: string, taken: Set<string>): string {
  let unique = name
  // Some file systems ignore case.
  for (let number = 2; taken.has(unique.toLowerCase()); number++) unique = `${name}-${number}`
  taken.add(unique.toLowerCase())
  return unique
}

/**
 * The conversations of the samples in training as lines of JSON, without those that never called the policy. Each part
 * of a conversation whose history was rewritten is a line. A message of the assistant that is not training data, or is
 * in an earlier line, has `weight: 0`, as in OpenAI's fine-tuning format.
 */
export function sftLines(
  event: ItemEvent,
  graded: GradedRollout,
): { readonly lines: readonly string[]; readonly withoutCalls: number } {
  const lines: string[] = []
  let withoutCalls = 0
  for (const [id, sample] of Object.entries(graded.samples)) {
    // A sample with a reward is in training.
    const isInTraining = event.reward === null ? !sample.removed : event.samples[id] != null
    if (!isInTraining) continue
    const wire = graded.wire?.[id]
    if (wire === undefined) {
      withoutCalls += 1
      continue
    }
    const { messages = sample.messages, tools, trained } = wire
    for (const part of trained?.map(weighed) ?? [messages]) {
      const line = { messages: part, ...(tools === undefined ? {} : { tools }) }
      lines.push(`${JSON.stringify(line)}\n`)
    }
  }
  return { lines, withoutCalls }
}

function weighed({ messages, answers }: TrainedConversation): unknown[] {
  return messages.map((message, at) =>
    message.role === 'assistant' && !answers.includes(at) ? { ...message, weight: 0 } : message,
  )
}
