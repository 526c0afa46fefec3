import { z } from 'zod'

/** The version of the Agent Trajectory Interchange Format that is written and checked here. */
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

const observation = z.strictObject({
  results: z.array(
    z.strictObject({
      source_call_id: z.string().nullish(),
      content: content.nullish(),
      subagent_trajectory_ref: z.array(subagentReference).nullish(),
      extra,
    }),
  ),
})

const metrics = z.strictObject({
  prompt_tokens: count.nullish(),
  completion_tokens: count.nullish(),
  cached_tokens: count.nullish(),
  cost_usd: z.number().nullish(),
  prompt_token_ids: z.array(z.int()).nullish(),
  completion_token_ids: z.array(z.int()).nullish(),
  logprobs: z.array(z.number()).nullish(),
  extra,
})

const finalMetrics = z.strictObject({
  total_prompt_tokens: count.nullish(),
  total_completion_tokens: count.nullish(),
  total_cached_tokens: count.nullish(),
  total_cost_usd: z.number().nullish(),
  total_steps: count.nullish(),
  extra,
})

const step = z.strictObject({
  /** From 1, without gaps. */
  step_id: z.int(),
  timestamp: timestamp.nullish(),
  source: z.enum(['system', 'user', 'agent']),
  model_name: z.string().nullish(),
  reasoning_effort: z.union([z.string(), z.number()]).nullish(),
  message: content,
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
  observation: observation.nullish(),
  metrics: metrics.nullish(),
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

/** The shape of a document; what its parts owe one another is checked by `validateTrajectory`. */
export const trajectorySchema = z.strictObject({
  schema_version: z.literal(trajectoryVersion),
  session_id: z.string().nullish(),
  trajectory_id: z.string().nullish(),
  agent,
  steps: z.array(step).min(1),
  notes: z.string().nullish(),
  final_metrics: finalMetrics.nullish(),
  continued_trajectory_ref: z.string().nullish(),
  extra,
  get subagent_trajectories() {
    return z.array(trajectorySchema).nullish()
  },
})

/** One conversation as a document: what was said, by whom, with which tools and at what cost. */
export type Trajectory = z.infer<typeof trajectorySchema>
/** One message of a conversation, with the results of the tools that it calls. */
export type TrajectoryStep = z.infer<typeof step>

/** Text, or parts of which some are images. */
export type TrajectoryContent = z.infer<typeof content>
/** A tool call of a step. */
export type TrajectoryToolCall = z.infer<typeof toolCall>
/** What one model call cost and gave. */
export type TrajectoryMetrics = z.infer<typeof metrics>
/** What all model calls of a conversation cost. */
export type TrajectoryFinalMetrics = z.infer<typeof finalMetrics>

function isIsoTime(text: string): boolean {
  return (
    /^\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]+(?:Z|[+-]\d{2}:?\d{2})?)?$/.test(text) &&
    !isNaN(Date.parse(text.replace(',', '.')))
  )
}
