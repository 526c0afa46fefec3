import { existsSync } from 'node:fs'
import path from 'node:path'

import {
  formatCount,
  formatQuantity,
  isThrown,
  rolloutName,
  type ItemEvent,
  type RunManifest,
} from '@osmosis/eval/analysis'

import { policyAdvice } from '../../checks/framework-advice.ts'
import { dim, indented, look, type Section } from '../../command/output/report.ts'
import { onOneLine, plain } from '../../command/terminal-text.ts'
import type { ShownItems } from './shown-run.ts'

/** Rollouts that failed in the same way. */
interface FailureKind {
  /** The error type, or the eval function that gave no score. */
  readonly type: string
  readonly count: number
  readonly message: string
  /** `12.1`: the first of them. */
  readonly item: string
}

const mostKinds = 8
/** Characters; the command below a message shows all of it. */
const longestMessage = 4000

/** The kinds of failures, the most frequent first; behind them the scores that are missing. */
export function failureKinds({ events }: ShownItems): FailureKind[] {
  const failed = events.filter(({ status }) => status === 'failed')
  return [
    ...kindsOf(failed.map((event) => [event.error_type ?? 'failed', event.error_message, event])),
    ...kindsOf(
      events.flatMap((event) =>
        Object.entries(event.score_errors ?? {}).map(([name, message]): Occurrence => [
          `no score from ${name}`,
          message,
          event,
        ]),
      ),
    ),
  ]
}

/** What went wrong, by kind: one whole message of each, and the command that shows its rollout. */
export function failureSections(run: ShownItems): Section[] {
  const { events, command } = run
  const kinds = failureKinds(run)
  if (kinds.length === 0) return []
  const failed = events.filter(({ status }) => status === 'failed')
  const title =
    failed.length === 0
      ? 'Scores are missing'
      : `${formatCount(failed.length)} of ${formatQuantity(events.length, 'rollout')} failed`
  const [first = [], ...others] = kinds.slice(0, mostKinds).map((kind) => kindSection(kind, run))
  const more = kinds.length - mostKinds
  return [
    [{ text: title, format: ['bold', 'red'] }, ...first],
    ...others,
    more > 0 ? [`And ${formatQuantity(more, 'other kind')}.`] : [],
    failed.length < 2
      ? []
      : [{ command: ['eval', 'show', command, '--filter', 'is:failed'], label: 'All of them:' }],
  ]
}

type Occurrence = readonly [type: string, message: string | null, event: ItemEvent]

/** Groups messages that differ in numbers and ids only. */
function kindsOf(occurrences: readonly Occurrence[]): FailureKind[] {
  const groups = Map.groupBy(occurrences, ([type, message]) => {
    const start = onOneLine(message ?? '').slice(0, 200)
    return `${type} ${start.replaceAll(/[\da-f]{8,}|[\da-f-]{36}|\d+/gi, '#')}`
  })
  return [...groups.values()]
    .flatMap((group): FailureKind[] => {
      const [first] = group
      if (first === undefined) return []
      const [type, message, event] = first
      const item = rolloutName(event)
      return [{ type, count: group.length, message: message ?? '', item }]
    })
    .toSorted((a, b) => b.count - a.count)
}

/** One kind of failures: a whole message, what to do, and the command that shows a rollout. */
export function kindSection(
  { type, count, message, item }: FailureKind,
  { command, reader }: ShownItems,
): Section {
  const whole = plain(withoutProtocolNames(message)).trim()
  const shown = whole.length > longestMessage ? `${whole.slice(0, longestMessage)}…` : whole
  const hasLog = isThrown(message) && existsSync(path.join(reader.location, 'logs.txt'))
  return [
    [`${formatCount(count)} × `, look(type, 'red'), `, ${count > 1 ? 'for example ' : ''}${item}`],
    { message: shown || 'No message.' },
    ...failureAdvice(type, message, reader.manifest).map((sentence) => ({
      facts: [look(sentence, 'yellow')],
      head: look('  → ', 'yellow'),
    })),
    hasLog ? indented(dim('The stack (all output is in logs.txt of the run):')) : undefined,
    { command: ['eval', 'show', command, item] },
  ]
}

/** Leaves out advice about a field of the protocol, which the user did not set. */
export function withoutProtocolNames(message: string): string {
  return message.replace(
    / (?:Check the (?:API key|api_key) that the rollout was sent with|The rollout was sent without an API key)(?: \(\w+\))?\./,
    '',
  )
}

/** What the user can do about a failure. */
export function failureAdvice(
  type: string,
  message: string,
  { inputs, provenance }: RunManifest,
): string[] {
  // An error that user code threw is not about the policy or the limits of the config.
  if (isThrown(message)) return []
  if (message.startsWith('No model call reached the policy')) {
    return [policyAdvice(path.join(provenance.root ?? '', inputs.code.entrypoint, '..'))]
  }
  const { agent_seconds: agent, grader_seconds: grader } = inputs.timeouts
  const config = provenance.config === null ? 'the config' : plain(provenance.config)
  if (type === 'timeout') {
    const isGrader = /grad/i.test(message)
    const limit = isGrader ? grader : agent
    const key = isGrader ? 'grader_timeout_s' : 'agent_workflow_timeout_s'
    return limit === null ? [] : [`The limit is ${key} = ${limit} in ${config}.`]
  }
  if (type !== 'http_error') return []
  // An evaluation names the flags itself.
  if (/--(?:api-key-env|model)\b/.test(message)) return []
  if (/\b40[13]\b/.test(message)) {
    return ['Check the key: --api-key-env names the variable that holds it.']
  }
  if (/\b404\b/.test(message)) return ['Check --model and --base-url.']
  if (/\b429\b/.test(message))
    return ['The endpoint is overloaded: run fewer rollouts concurrently, with --max-in-flight.']
  return []
}
