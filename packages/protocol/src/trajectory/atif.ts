import { z } from 'zod'

/** The version of the Agent Trajectory Interchange Format. */
export const trajectoryVersion = 'ATIF-v1.7'

const extra = z.record(z.string(), z.unknown()).nullish()
const count = z.int().min(0)
const timestamp = z.string().refine(isIsoTime, 'must be an ISO 8601 date and time')

const contentPart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({
    type: z.literal('image'),
    source: z.strictObject({
      media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      path: z.string(),
    }),
  }),
])
const content = z.union([z.string(), z.array(contentPart)])

const toolCall = z.strictObject({
  tool_call_id: z.string(),
  function_name: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  extra,
})

const subagentReference = z.strictObject({
  trajectory_id: z.string().nullish(),
  trajectory_path: z.string().nullish(),
  session_id: z.string().nullish(),
  extra,
})

const observationSchema = z.strictObject({
  results: z.array(
    z.strictObject({
      source_call_id: z.string().nullish(),
      content: content.nullish(),
      subagent_trajectory_ref: z.array(subagentReference).nullish(),
      extra,
    }),
  ),
})

export const metricsSchema = z.strictObject({
  prompt_tokens: count.nullish(),
  completion_tokens: count.nullish(),
  cached_tokens: count.nullish(),
  cost_usd: z.number().nullish(),
  prompt_token_ids: z.array(z.int()).nullish(),
  completion_token_ids: z.array(z.int()).nullish(),
  logprobs: z.array(z.number()).nullish(),
  extra,
})

export const finalMetricsSchema = z.strictObject({
  total_prompt_tokens: count.nullish(),
  total_completion_tokens: count.nullish(),
  total_cached_tokens: count.nullish(),
  total_cost_usd: z.number().nullish(),
  total_steps: count.nullish(),
  extra,
})

const stepSchema = z.strictObject({
  /** From 1, without gaps. */
  step_id: z.int(),
  timestamp: timestamp.nullish(),
  source: z.enum(['system', 'user', 'agent']),
  model_name: z.string().nullish(),
  reasoning_effort: z.union([z.string(), z.number()]).nullish(),
  message: content,
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
  observation: observationSchema.nullish(),
  metrics: metricsSchema.nullish(),
  is_copied_context: z.boolean().nullish(),
  llm_call_count: count.nullish(),
  extra,
})

const agent = z.strictObject({
  name: z.string(),
  version: z.string(),
  model_name: z.string().nullish(),
  tool_definitions: z.array(z.record(z.string(), z.unknown())).nullish(),
  extra,
})

/** The shape of a document; `validateTrajectory` also checks the rules between its parts. */
export const trajectorySchema = z.strictObject({
  schema_version: z.literal(trajectoryVersion),
  session_id: z.string().nullish(),
  trajectory_id: z.string().nullish(),
  agent,
  steps: z.array(stepSchema).min(1),
  notes: z.string().nullish(),
  final_metrics: finalMetricsSchema.nullish(),
  continued_trajectory_ref: z.string().nullish(),
  extra,
  get subagent_trajectories() {
    return z.array(trajectorySchema).nullish()
  },
})

/** One conversation as a document: its messages, tool calls and costs. */
export type Trajectory = z.infer<typeof trajectorySchema>
/** One message of a conversation, with the results of the tools that it calls. */
export type TrajectoryStep = z.infer<typeof stepSchema>

/** Text, or a list of text and image parts. */
export type TrajectoryContent = z.infer<typeof content>
/** A tool call of a step. */
export type TrajectoryToolCall = z.infer<typeof toolCall>
/** Tokens, cost and sampled ids of one model call. */
export type TrajectoryMetrics = z.infer<typeof metricsSchema>
/** Tokens and cost of all model calls of a conversation. */
export type TrajectoryFinalMetrics = z.infer<typeof finalMetricsSchema>

/**
 * Checks a document against its format: its shape, without unknown keys, and the rules between its parts.
 *
 * @returns the problems, each as `path: sentence`, such as
 * `steps[1].observation.results[0].source_call_id: …`; none when the document is valid
 */
export function validateTrajectory(document: unknown): string[] {
  const { success, data, error } = trajectorySchema.safeParse(document)
  if (success) return problemsOf(data, '')
  return error.issues.map(({ path, message }) => `${pathText(path) || 'document'}: ${message}`)
}

function problemsOf(trajectory: Trajectory, at: string): string[] {
  const problems = trajectory.steps.flatMap((step, index) => {
    const path = `${at}steps[${index}]`
    const wrongId =
      step.step_id === index + 1
        ? []
        : [`${path}.step_id: must be ${index + 1}, steps are numbered from 1 without gaps`]
    return [
      ...wrongId,
      ...agentOnly(step, path),
      ...withoutCall(step, path),
      ...results(step, path),
    ]
  })
  const embedded = trajectory.subagent_trajectories ?? []
  const seen = new Set<string>()
  for (const [index, { trajectory_id: id }] of embedded.entries()) {
    const path = `${at}subagent_trajectories[${index}].trajectory_id`
    if (typeof id !== 'string') problems.push(`${path}: is required in an embedded trajectory`)
    else if (seen.has(id)) problems.push(`${path}: is used by two embedded trajectories`)
    else seen.add(id)
  }
  const below = embedded.flatMap((inner, index) =>
    problemsOf(inner, `${at}subagent_trajectories[${index}].`),
  )
  return [...problems, ...below]
}

const agentKeys = [
  'model_name',
  'reasoning_effort',
  'reasoning_content',
  'tool_calls',
  'metrics',
] as const

function agentOnly(step: TrajectoryStep, path: string): string[] {
  if (step.source === 'agent') return []
  return agentKeys
    .filter((key) => isGiven(step[key]))
    .map(
      (key) => `${path}.${key}: belongs to steps of the agent, this one is of the ${step.source}`,
    )
}

function withoutCall(step: TrajectoryStep, path: string): string[] {
  if (step.llm_call_count !== 0) return []
  return (['metrics', 'reasoning_content'] as const)
    .filter((key) => isGiven(step[key]))
    .map((key) => `${path}.${key}: cannot be there when llm_call_count is 0`)
}

function results({ tool_calls: calls, observation }: TrajectoryStep, path: string): string[] {
  const called = new Set(calls?.map(({ tool_call_id: id }) => id))
  return (observation?.results ?? []).flatMap((result, index) => {
    const at = `${path}.observation.results[${index}]`
    const { source_call_id: id, subagent_trajectory_ref: references } = result
    const unknown =
      isGiven(id) && !called.has(id)
        ? [`${at}.source_call_id: ${JSON.stringify(id)} is not a tool call of this step`]
        : []
    const empty = (references ?? []).flatMap((reference, place) =>
      isGiven(reference.trajectory_id) || isGiven(reference.trajectory_path)
        ? []
        : [`${at}.subagent_trajectory_ref[${place}]: needs a trajectory_id or a trajectory_path`],
    )
    return [...unknown, ...empty]
  })
}

function isGiven<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`))
    .join('')
    .replace(/^\./, '')
}

function isIsoTime(text: string): boolean {
  return (
    /^\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]+(?:Z|[+-]\d{2}:?\d{2})?)?$/.test(text) &&
    !isNaN(Date.parse(text.replace(',', '.')))
  )
}
