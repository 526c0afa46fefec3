/** What is read of a document in the Agent Trajectory Interchange Format (ATIF-v1.7). */
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

/** What is read of a step. */
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
}

/** What is read of a tool call. */
export interface ToolCallLike {
  readonly tool_call_id: string
  readonly function_name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** What is read of the result of a tool. */
export interface ToolResultLike {
  readonly source_call_id?: string | null | undefined
  /** Text, or parts of which some are images. */
  readonly content?: unknown
  readonly extra?: Readonly<Record<string, unknown>> | null | undefined
}
/** The text of a message or result; parts that are not text are left out. */
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
