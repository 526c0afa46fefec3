/** The fields that are read from a document in the Agent Trajectory Interchange Format (ATIF-v1.7). */
export interface TrajectoryLike {
  readonly steps: readonly StepLike[]
  readonly final_metrics?:
    | {
        readonly total_prompt_tokens?: number | null | undefined
        readonly total_completion_tokens?: number | null | undefined
        readonly total_cost_usd?: number | null | undefined
      }
    | null
    | undefined
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
}

/** A step of a trajectory. */
export interface StepLike {
  readonly source: 'system' | 'user' | 'agent'
  /** Text, or parts of which some are images. */
  readonly message: unknown
  readonly tool_calls?: readonly ToolCallLike[] | null | undefined
  readonly observation?: { readonly results: readonly ToolResultLike[] } | null | undefined
  readonly metrics?:
    | {
        readonly extra?: Readonly<Record<string, unknown>> | null | undefined
      }
    | null
    | undefined
  readonly llm_call_count?: number | null | undefined
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
}

/** A tool call of a step. */
export interface ToolCallLike {
  readonly tool_call_id: string
  readonly function_name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** The result of a tool call. */
export interface ToolResultLike {
  readonly source_call_id?: string | null | undefined
  /** Text, or parts of which some are images. */
  readonly content?: unknown
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
}

/** The text of a message or result, without parts that are not text. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .flatMap((part: unknown) => {
      const text = isFields(part) ? part['text'] : undefined
      return typeof text === 'string' ? [text] : []
    })
    .join('\n')
}

export function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Whether the conversations of a rollout contain a text. Field names do not count.
 *
 * @param samples - trajectories by sample id
 * @param wanted - in lower case
 */
export function transcriptContains(samples: unknown, wanted: string): boolean {
  return Object.values(samples ?? {}).some((sample) => isInField(sample, wanted))
}

/** Fields of a trajectory that are not part of the conversation. */
const ignoredFields = new Set([
  'agent',
  'final_metrics',
  'llm_call_count',
  'media_type',
  'metrics',
  'model_name',
  'schema_version',
  'session_id',
  'source',
  'source_call_id',
  'step_id',
  'timestamp',
  'tool_call_id',
  'trajectory_id',
  'type',
])

function isInField(value: unknown, wanted: string): boolean {
  if (typeof value === 'string') return value.toLowerCase().includes(wanted)
  if (typeof value !== 'object' || value === null) return String(value).includes(wanted)
  return Object.entries(value).some(([key, field]) =>
    key === 'arguments'
      ? isInArguments(field, wanted)
      : !ignoredFields.has(key) && isInField(field, wanted),
  )
}

/** In the arguments of a tool call the policy chose the names too. */
function isInArguments(value: unknown, wanted: string): boolean {
  if (typeof value !== 'object' || value === null) return isInField(value, wanted)
  return Object.entries(value).some(
    ([key, field]) => key.toLowerCase().includes(wanted) || isInArguments(field, wanted),
  )
}
