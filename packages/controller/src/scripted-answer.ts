/** A tool call of a scripted answer. */
export interface ScriptedToolCall {
  /** Default: derived from the request, the same for the same request. */
  readonly id?: string
  readonly name: string
  /** A string goes out byte for byte, valid JSON or not; an object as its JSON text. */
  readonly arguments: string | object
}

/** What a scripted policy says: plain text, or everything a model can say. */
export type ScriptedAnswer =
  | string
  | {
      /** Default: null, as in an answer that only calls tools. */
      readonly content?: string | null
      /** Thinking of the policy; sent as `reasoning_content`. */
      readonly reasoning?: string
      readonly toolCalls?: readonly ScriptedToolCall[]
      /** Default: `tool_calls` when there are any, else `stop`. */
      readonly finishReason?: string
      /** Default: estimated from the length of the texts, four characters to a token. */
      readonly usage?: { readonly promptTokens: number; readonly completionTokens: number }
      /** Sent as `logprobs.content`. */
      readonly logprobs?: readonly unknown[]
      /** Sent as `token_ids` of the choice, as vLLM does. */
      readonly tokenIds?: readonly number[]
    }
