import type { ItemEvent, ToolUse } from '../records/item-event.ts'
import {
  isFields,
  type StepLike,
  textOf,
  type ToolResultLike,
  type TrajectoryLike,
} from './trajectory-shape.ts'

/** A tool call of a step and its result. */
export interface AnsweredToolCall<TStep extends StepLike = StepLike> {
  readonly call: NonNullable<TStep['tool_calls']>[number]
  /** Undefined when there is none. */
  readonly result: NonNullable<TStep['observation']>['results'][number] | undefined
  readonly failed: boolean
}

/**
 * The tool calls of a step, each with its result. Some policies give several calls one id: the results of that id
 * belong to them in their order. Results that name no call belong to the calls without one, likewise.
 */
export function answeredCalls<TStep extends StepLike>(step: TStep): AnsweredToolCall<TStep>[] {
  const { tool_calls: calls, observation } = step
  const results = observation?.results ?? []
  const byId = Map.groupBy(results, ({ source_call_id: id }) => id ?? null)
  return (calls ?? []).map((call) => {
    const result = byId.get(call.tool_call_id)?.shift() ?? byId.get(null)?.shift()
    return { call, result, failed: result !== undefined && isToolError(result) }
  })
}

/** How the results begin that frameworks give for an exception, an unknown tool, and arguments that do not fit. */
const errorText =
  /^\s*(?:error\b|\[error\]|[\w.]{1,80}(?:error|exception):|traceback\b|an error occurred while running the tool\b|tool \S+ not found\b|validation failed for tool\b)/i

/**
 * Whether a tool failed: its framework flagged the result, or the text begins like an error or traceback,
 * or is a JSON object with an `error`. Pi and Mastra give the message of an exception alone, which is not recognised.
 */
export function isToolError({ content, extra }: ToolResultLike): boolean {
  if (extra?.['error'] === true || extra?.['is_error'] === true) return true
  const text = textOf(content)
  if (errorText.test(text)) return true
  // Parsing every long result would cost more than the rest of the facts.
  if (!/^\s*\{/.test(text) || !text.includes('"error"')) return false
  try {
    const parsed: unknown = JSON.parse(text)
    const error = isFields(parsed) ? parsed['error'] : null
    return error !== null && error !== undefined && error !== false && error !== ''
  } catch {
    return false
  }
}

/** The fields of an {@link ItemEvent} that come from the conversations of a rollout. */
export type TrajectoryFacts = Pick<
  ItemEvent,
  | 'tokens'
  | 'prompt_tokens'
  | 'completion_tokens'
  | 'cost_usd'
  | 'calls'
  | 'tool_calls'
  | 'tool_errors'
  | 'finish'
  | 'rewritten'
  | 'limit'
  | 'no_text'
  | 'versions'
  | 'purposes'
  | 'tools'
  | 'summary'
>

/** Reads the facts of a rollout from the documents of its samples, in their order. */
export function trajectoryFacts(trajectories: readonly TrajectoryLike[]): TrajectoryFacts {
  const finish = new Map<string, number>()
  const tools = new Map<string, { calls: number; errors: number }>()
  const versions = new Set<string>()
  const purposes = new Set<string>()
  let calls = 0
  let rewritten = 0
  for (const trajectory of trajectories) {
    for (const metrics of answeredMetrics(trajectory)) {
      calls += 1
      const { finish_reason: reason } = metrics
      const { policy_version: version, purpose } = metrics
      if (typeof version === 'string') versions.add(version)
      purposes.add(typeof purpose === 'string' ? purpose : agentPurpose)
      if (typeof reason === 'string') finish.set(reason, (finish.get(reason) ?? 0) + 1)
      if (isRewritten(metrics)) rewritten += 1
    }
    for (const { call, failed } of trajectory.steps.flatMap(answeredCalls)) {
      const { calls: before, errors } = tools.get(call.function_name) ?? { calls: 0, errors: 0 }
      tools.set(call.function_name, { calls: before + 1, errors: errors + (failed ? 1 : 0) })
    }
  }
  const reasonOf = (name: string): string | undefined =>
    trajectories.flatMap((trajectory) => extraField(trajectory, name) ?? [])[0]
  const output = trajectories.flatMap((trajectory) => runOutputOf(trajectory) ?? [])[0]
  const limit = reasonOf('limit_reached')
  const modelError = reasonOf('model_error')
  const uses = [...tools].map(([name, use]): ToolUse => ({ name, ...use }))
  const prompt = total(trajectories, 'total_prompt_tokens')
  const completion = total(trajectories, 'total_completion_tokens')
  const lastText = lastAnswerOf(trajectories.at(-1))
  const isExplained = output !== undefined || limit !== undefined || modelError !== undefined
  return {
    tokens: prompt === null && completion === null ? null : (prompt ?? 0) + (completion ?? 0),
    prompt_tokens: prompt,
    completion_tokens: completion,
    cost_usd: total(trajectories, 'total_cost_usd'),
    calls,
    tool_calls: uses.reduce((sum, use) => sum + use.calls, 0),
    tool_errors: uses.reduce((sum, use) => sum + use.errors, 0),
    finish: Object.fromEntries(finish),
    rewritten,
    ...(limit === undefined ? {} : { limit }),
    ...(modelError === undefined ? {} : { model_error: modelError }),
    ...(lastText === '' && !isExplained ? { no_text: true as const } : {}),
    ...(versions.size === 0 ? {} : { versions: [...versions] }),
    ...(isAgentAlone(purposes) ? {} : { purposes: [...purposes] }),
    tools: uses,
    summary: toSummary(
      lastText === '' && output !== undefined ? output.brief : lastPolicyText(trajectories),
    ),
  }
}

/**
 * Whether a model call did not continue the conversation before it, by the `extra` of its metrics. A call under other
 * instructions continues it as another agent.
 */
export function isRewritten(extra: CallExtra): boolean {
  return extra?.['history_rewritten'] === true && extra['instructions_changed'] !== true
}

/** What is shown above a step from which on the policy has other instructions; undefined for other steps. */
export function seamText({
  extra,
  message,
}: Pick<StepLike, 'extra' | 'message'>): string | undefined {
  if (extra?.['instructions_changed'] !== true) return undefined
  const agent = typeof extra['agent'] === 'string' ? `, agent ${extra['agent']}` : ''
  return `${message === '' ? 'no' : 'other'} instructions from here${agent}`
}

/** The purpose of a call that names none. */
const agentPurpose = 'agent'

function isAgentAlone(purposes: ReadonlySet<string>): boolean {
  return [...purposes].every((purpose) => purpose === agentPurpose)
}

/** A text as it is stored in an event: one line of at most 160 characters. */
export function toSummary(text: string): string {
  // Far more than fits: answers may have megabytes.
  const line = text.slice(0, 4000).replaceAll(/\s+/g, ' ').trim()
  // By code points: half of a pair is not a character.
  const characters = Array.from(line.slice(0, 400))
  return characters.length <= 160 ? line.slice(0, 400) : `${characters.slice(0, 159).join('')}…`
}

/** A text among the extra fields of a sample. */
function extraField(trajectory: TrajectoryLike, name: string): string | undefined {
  const value = extraFieldsOf(trajectory)[name]
  return typeof value === 'string' ? value : undefined
}

function extraFieldsOf({ extra }: TrajectoryLike): Readonly<Record<string, unknown>> {
  const osmosis = extra?.['osmosis']
  const fields = isFields(osmosis) ? osmosis['sample_extra_fields'] : undefined
  return isFields(fields) ? fields : {}
}

/** What `run()` of the workflow returned, as text. */
export interface RunOutputText {
  /** On one line, unless it is a text. */
  readonly brief: string
  /** With a line for each field. */
  readonly whole: string
}

/** What `run()` returned for graders; undefined when the first sample of the rollout has none. */
export function runOutputOf(trajectory: TrajectoryLike): RunOutputText | undefined {
  const { run_output: output } = extraFieldsOf(trajectory)
  if (output === undefined) return undefined
  if (typeof output === 'string') return { brief: output, whole: output }
  return { brief: JSON.stringify(output), whole: JSON.stringify(output, null, 2) }
}

type CallExtra = Readonly<Record<string, unknown>> | null | undefined

/**
 * What is shown of a model call, by the `extra` of its metrics: version of the policy, purpose, and whether its
 * answer is left out of training. Empty for an ordinary call of an unknown version.
 */
export function callNotes(extra: CallExtra): string[] {
  const { policy_version: version, purpose, trainable } = extra ?? {}
  return [
    ...(typeof version === 'string' ? [version] : []),
    ...(typeof purpose === 'string' ? [`for ${purpose}`] : []),
    ...(trainable === false ? ['not training data'] : []),
  ]
}

/** `temperature 0.7, max_tokens 64`: the sampling settings of a model call; empty when it has none. */
export function samplingText(extra: CallExtra): string {
  const sampling = isFields(extra?.['sampling']) ? extra['sampling'] : {}
  const settings = Object.entries(sampling).map(([name, value]) => {
    return `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  return settings.join(', ')
}

/** Notes of the model calls that are not the agent's, and whose answers are in no step. */
export function callsBeside({ extra }: Pick<TrajectoryLike, 'extra'>): string[][] {
  return callsWithoutStep(extra).flatMap((call) => {
    const own = isFields(call['extra']) ? call['extra'] : {}
    const { agent, purpose, trainable } = own
    if (purpose === undefined && trainable === undefined) return []
    return [[...(typeof agent === 'string' ? [`agent ${agent}`] : []), ...callNotes(own)]]
  })
}

/**
 * The conversations of a sample that are in no step, each as its messages in chat completions form: those of calls that are not training
 * data, of agents that are tools, and histories before they were rewritten.
 */
export function otherConversationsOf(
  trajectory: TrajectoryLike,
): readonly (readonly Readonly<Record<string, unknown>>[])[] {
  const { other_conversations: others } = extraFieldsOf(trajectory)
  if (!Array.isArray(others)) return []
  return others.map((messages: unknown) =>
    Array.isArray(messages) ? messages.filter(isFields) : [],
  )
}

/** Model calls whose answers are not in a step. */
function callsWithoutStep(extra: TrajectoryLike['extra']): Readonly<Record<string, unknown>>[] {
  const osmosis = extra?.['osmosis']
  const calls = isFields(osmosis) ? osmosis['calls_without_step'] : undefined
  return Array.isArray(calls) ? calls.filter(isFields) : []
}

/** The metrics of all answered calls. */
function answeredMetrics({ steps, extra }: TrajectoryLike): Readonly<Record<string, unknown>>[] {
  const inSteps = steps.flatMap(({ metrics, source }) =>
    metrics && source === 'agent' ? [metrics.extra ?? {}] : [],
  )
  const answered = callsWithoutStep(extra).flatMap((call) => {
    if (typeof call['error'] === 'string') return []
    return [isFields(call['extra']) ? call['extra'] : {}]
  })
  return [...inSteps, ...answered]
}

/** The text of the last answer, '' when it has none; undefined without an answer. */
function lastAnswerOf(trajectory: TrajectoryLike | undefined): string | undefined {
  const step = trajectory?.steps.findLast(({ source }) => source === 'agent')
  return step && textOf(step.message).trim()
}

/** The last text of the policy in the last conversation that has one. */
function lastPolicyText(trajectories: readonly TrajectoryLike[]): string {
  for (const { steps } of trajectories.toReversed()) {
    for (const { source, message } of steps.toReversed()) {
      const text = source === 'agent' ? textOf(message) : ''
      if (text.trim() !== '') return text
    }
  }
  return ''
}

/** The sum over the conversations that have the metric; null when none has it. */
function total(
  trajectories: readonly TrajectoryLike[],
  key: keyof NonNullable<TrajectoryLike['final_metrics']>,
): number | null {
  const known = trajectories.flatMap(({ final_metrics: metrics }) => metrics?.[key] ?? [])
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
}
