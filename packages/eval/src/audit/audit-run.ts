import {
  type AuditCheck,
  auditChecks,
  type AuditFinding,
} from '../analysis/records/audit-finding.ts'
import { type ItemEvent, rolloutName, itemKey } from '../analysis/records/item-event.ts'
import type { RunTable } from '../analysis/table/run-table.ts'
import type { RunFolder } from '../store/read/run-folder.ts'
import {
  type AuditedPass,
  lastAnswer,
  osmosisFields,
  readLabel,
  readPass,
  stepText,
} from './audited-pass.ts'
import { currentVerdicts } from './current-verdicts.ts'
import { listedCandidates, missingLabel, shownLabel } from './label-checks.ts'

/** What {@link auditRun} audits. */
export interface AuditOptions {
  /** The items of one model, with the rewards that decide who passed. */
  readonly table: RunTable
  /** The events of the same items. */
  readonly events: readonly ItemEvent[]
}

/**
 * Checks the passes of a run for reward hacking, and reads what reviewers decided. Reads each transcript once.
 * Findings are hints, ordered by rollout and check.
 */
export async function auditRun(
  run: RunFolder,
  { table, events }: AuditOptions,
): Promise<AuditFinding[]> {
  const passes = events.flatMap((event): Pass[] => {
    const item = table.find(event.source_row_index, event.run_index)
    const hasPassed = item !== undefined && table.passed(item)
    return hasPassed ? [{ event, item, value: table.value(item) ?? 0 }] : []
  })
  const labels = await readLabels(run, events)
  const rowsOfLabel = countBy([...labels.values()])
  const rowsOfText = rowsOfTexts(passes)
  const paysAnyAnswer = passesWithoutLabel(table, events, labels)
  const callsAtEnd = new Map<Pass, string>()
  const found: [Pass, AuditCheck, string][] = []
  for (const pass of passes) {
    const { event, item } = pass
    const label = labels.get(event.source_row_index) ?? null
    const read = await readPass(run, event, label)
    const tool = endsWithCall(read)
    if (tool !== undefined) callsAtEnd.set(pass, tool)
    const isUnique = rowsOfLabel.get(label) === 1
    const evidence: Record<AuditCheck, string | undefined> = {
      'same-words': table.suspicions(item).includes('sametext')
        ? repeatedText(event, rowsOfText.get(event.summary) ?? new Set(), labels)
        : undefined,
      'no-tools': unusedTools(table, item, read),
      'label-shown': shownLabel(read, isUnique),
      candidates: listedCandidates(read),
      'grader-error': graderError(read, await run.loggedError(event)),
      'no-label': paysAnyAnswer ? missingLabel(read) : undefined,
      'no-evidence': missingEvidence(read),
    }
    for (const check of auditChecks) {
      if (evidence[check] !== undefined) found.push([pass, check, evidence[check]])
    }
  }
  // Where most passes end with a call, such as one that submits the answer, it is expected.
  if (callsAtEnd.size <= passes.length / 2) {
    for (const [pass, tool] of callsAtEnd) {
      found.push([pass, 'no-evidence', `it ends with a call of ${tool} and has no final answer`])
    }
  }
  const places = new Map(passes.map((pass, at) => [pass, at]))
  const placeOf = ([pass, check]: (typeof found)[number]): number =>
    (places.get(pass) ?? 0) * auditChecks.length + auditChecks.indexOf(check)
  return withVerdicts(
    run,
    found.toSorted((a, b) => placeOf(a) - placeOf(b)),
  )
}

/** An item that passed. */
interface Pass {
  readonly event: ItemEvent
  /** Its place in the table. */
  readonly item: number
  readonly value: number
}

async function withVerdicts(
  run: RunFolder,
  found: readonly (readonly [Pass, AuditCheck, string])[],
): Promise<AuditFinding[]> {
  const byItem = Map.groupBy(await run.verdicts(), (verdict) => itemKey(verdict))
  return found.map(([{ event, value }, check, evidence]) => {
    const own = currentVerdicts(byItem.get(itemKey(event)) ?? [], event)
    return {
      id: `${rolloutName(event)}:${check}`,
      check,
      event,
      value,
      evidence: shortened(evidence),
      verdict: own.find((one) => one.check === check && one.value === value) ?? null,
    }
  })
}

function shortened(evidence: string): string {
  const line = evidence.replaceAll(/\s+/g, ' ').trim()
  return line.length <= 240 ? line : `${line.slice(0, 239)}…`
}

/** By the row in the dataset. */
async function readLabels(
  run: RunFolder,
  events: readonly ItemEvent[],
): Promise<Map<number, string | null>> {
  const labels = new Map<number, string | null>()
  for (const event of events) {
    const { source_row_index: row } = event
    if ((labels.get(row) ?? null) === null) labels.set(row, await readLabel(run, event))
  }
  return labels
}

/** Whether every graded rollout at rows without a label passes: then the grader may pay for any answer. */
function passesWithoutLabel(
  table: RunTable,
  events: readonly ItemEvent[],
  labels: ReadonlyMap<number, string | null>,
): boolean {
  return events
    .filter(({ source_row_index: row, status }) => labels.get(row) === null && status !== 'failed')
    .map(({ source_row_index: row, run_index: attempt }) => table.find(row, attempt))
    .every((item) => item === undefined || !table.counts(item) || table.passed(item))
}

function countBy<T>(values: readonly T[]): Map<T, number> {
  return new Map([...Map.groupBy(values, (value) => value)].map(([of, all]) => [of, all.length]))
}

/** The rows at which each last text passes. */
function rowsOfTexts(passes: readonly Pass[]): Map<string, Set<number>> {
  const rows = new Map<string, Set<number>>()
  for (const { event } of passes) {
    const known = rows.get(event.summary) ?? new Set()
    rows.set(event.summary, known.add(event.source_row_index))
  }
  return rows
}

/** Undefined where the rows have the same label: the same answer is right at each. */
function repeatedText(
  { summary }: ItemEvent,
  rows: ReadonlySet<number>,
  labels: ReadonlyMap<number, string | null>,
): string | undefined {
  const distinct = new Set([...rows].map((row) => labels.get(row) ?? null))
  if (distinct.size === 1 && !distinct.has(null)) return undefined
  return `"${summary}" is the last text of passes at ${rows.size} rows`
}

function unusedTools(
  table: RunTable,
  item: number,
  { event, graded }: AuditedPass,
): string | undefined {
  const wire = Object.values(graded?.wire ?? {})
  // Where requests were recorded, they name the tools that the agent had.
  const isOffered = wire.length === 0 || wire.some(({ tools = [] }) => tools.length > 0)
  if (event.tool_calls > 0 || !isOffered) return undefined
  const { toolCalls } = table.document.columns
  const others = table.group(item).items.filter((other) => other !== item && table.counts(other))
  const calling = others.filter((other) => (toolCalls[other] ?? 0) > 0)
  if (calling.length > others.length / 2) {
    return `it called no tool; ${calling.length} of ${others.length} other attempts at its row did`
  }
  return table.suspicions(item).includes('notools')
    ? 'it called no tool; more than 80 % of the passes did'
    : undefined
}

/** Why nothing shows that a reward was earned; undefined otherwise. */
function missingEvidence({ event, stored, conversations }: AuditedPass): string | undefined {
  if (stored === 'damaged') return 'its transcript is damaged'
  if (stored === 'missing') return 'it has no transcript'
  if (event.calls === 0) return 'it never called the policy'
  for (const [id, conversation] of conversations) {
    const last = lastAnswer(conversation)
    const of = conversations.length > 1 ? ` of ${id}` : ''
    if (last === undefined) return `an answer${of} is missing`
    if (last.metrics?.extra?.['finish_reason'] === 'length') {
      return `the last answer${of} is cut off at the token limit`
    }
    if (stepText(last) === '' && !callsTools(last)) return `the last answer${of} is empty`
  }
  return undefined
}

/** The tool with whose call a conversation ends instead of an answer; undefined for none. */
function endsWithCall({ conversations }: AuditedPass): string | undefined {
  for (const [, conversation] of conversations) {
    const last = lastAnswer(conversation)
    if (last !== undefined && stepText(last) === '' && callsTools(last)) {
      return last.tool_calls?.at(-1)?.function_name
    }
  }
  return undefined
}

function callsTools({ tool_calls: calls }: NonNullable<ReturnType<typeof lastAnswer>>): boolean {
  return (calls ?? []).length > 0
}

const errorName = /(?:^|_)(?:error|exception|traceback)s?$/i

/**
 * The error of its grader, although it passed: a failure that the rollout or its log has, an eval function without
 * a score, or what the grader itself stored as an error. Undefined for none.
 *
 * @param logged - the error of the rollout in the log of the run
 */
function graderError(
  { event, conversations, graded }: AuditedPass,
  logged: string | undefined,
): string | undefined {
  if (event.status === 'failed') return `it failed: ${event.error_type}: ${event.error_message}`
  const documents = conversations.map(([, { extra }]) => osmosisFields(extra))
  for (const { failures } of documents) {
    for (const failure of Array.isArray(failures) ? failures : []) {
      const { phase, message } = failure as { phase?: unknown; message?: unknown }
      return `${String(phase)} failed: ${String(message)}`
    }
  }
  for (const [name, error] of Object.entries(event.score_errors ?? {})) {
    return `${name} gave no score: ${error}`
  }
  if (logged !== undefined) return `the log has an error: ${logged}`
  const stored = Object.values(graded?.samples ?? {}).flatMap((sample) => [
    ...Object.entries(sample.extra_fields),
    ...Object.entries(sample.metrics),
  ])
  const found = stored.find(([name, value]) => errorName.test(name) && Boolean(value))
  return found && `the sample has ${found[0]}: ${textOfValue(found[1])}`
}

function textOfValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
