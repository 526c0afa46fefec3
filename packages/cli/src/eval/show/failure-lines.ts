import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { formatCount, formatQuantity } from '@osmosis/eval'
import { isThrown, rolloutName, type ItemEvent, type RunManifest } from '@osmosis/eval/analysis'

import {
  onOneLine,
  plain,
  styled,
  wrapped,
  commandLines,
  withCommand,
} from '../../command/terminal-text.ts'
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
export function failureLines(run: ShownItems, width: number): string[] {
  const { events, command } = run
  const kinds = failureKinds(run)
  if (kinds.length === 0) return []
  const failed = events.filter(({ status }) => status === 'failed')
  const title =
    failed.length === 0
      ? 'Scores are missing'
      : `${formatCount(failed.length)} of ${formatQuantity(events.length, 'rollout')} failed`
  const more = kinds.length - mostKinds
  return [
    styled(['bold', 'red'], title),
    ...kinds
      .slice(0, mostKinds)
      .flatMap((kind, at) => [...(at === 0 ? [] : ['']), ...kindLines(kind, run, width)]),
    ...(more > 0 ? ['', `And ${formatQuantity(more, 'other kind')}.`] : []),
    ...(failed.length < 2
      ? []
      : ['', ...withCommand('All of them:', ['eval', 'show', command, '--filter', 'is:failed'])]),
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
export function kindLines(
  { type, count, message, item }: FailureKind,
  { command, reader }: ShownItems,
  width: number,
): string[] {
  const whole = plain(withoutProtocolNames(message)).trim()
  const text = whole.length > longestMessage ? `${whole.slice(0, longestMessage)}…` : whole
  const [first = '', ...more] = wrapped(text === '' ? 'No message.' : text, width - 2)
  const head = `${formatCount(count)} × ${styled('red', onOneLine(type))}${count > 1 ? `, for example ${item}` : `, ${item}`}`
  return [
    head,
    ...[first, ...more].map((line) => `  ${line}`.trimEnd()),
    ...failureAdvice(type, message, reader.manifest).flatMap((sentence) =>
      wrapped(sentence, width - 4).map((line, at) =>
        styled('yellow', `  ${at === 0 ? '→' : ' '} ${line}`),
      ),
    ),
    ...(isThrown(message) && existsSync(path.join(reader.location, 'logs.txt'))
      ? [styled('dim', `  The stack (all output is in logs.txt of the run):`)]
      : []),
    ...commandLines(['eval', 'show', command, item]),
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

/** The policy as a model, by adapter. */
const models: Readonly<Record<string, string>> = {
  '@osmosis/ai-sdk': 'rolloutModel()',
  '@osmosis/google-adk': 'OsmosisLlm',
  '@osmosis/langchain': 'OsmosisChatModel',
  '@osmosis/mastra': 'rolloutModel()',
  '@osmosis/openai-agents': 'OsmosisRolloutModel',
  '@osmosis/pi': 'rolloutStreamFn()',
  '@osmosis/strands': 'OsmosisRolloutModel',
}

/** What to do about an agent that does not call the policy, by the adapters that its project has. */
export function policyAdvice(folder: string): string {
  const found = adaptersOf(path.resolve(folder)).map((name) => `${models[name]} of ${name}`)
  const model = found.join(', or ') || 'the model of its adapter'
  return `Give the agent ${model} instead of its old model, and await its run.`
}

function adaptersOf(folder: string): string[] {
  const found = dependenciesOf(folder).filter((name) => name in models)
  const parent = path.dirname(folder)
  return found.length > 0 || parent === folder ? found : adaptersOf(parent)
}

function dependenciesOf(folder: string): string[] {
  try {
    const text = readFileSync(path.join(folder, 'package.json'), 'utf8')
    return Object.keys((JSON.parse(text) as { dependencies?: object }).dependencies ?? {})
  } catch {
    return []
  }
}
