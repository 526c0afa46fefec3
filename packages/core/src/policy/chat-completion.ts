/**
 * The part of the OpenAI chat completions format that agents and policies exchange, under its wire names
 * (snake_case). Other fields are preserved.
 * Source: https://platform.openai.com/docs/api-reference/chat
 */

/** One part of a message's content, e.g. `{ type: 'text', text }` or `{ type: 'image_url', … }`. */
export interface ChatContentPart {
  type: string
  text?: string
  [key: string]: unknown
}

export interface ChatToolCall {
  id: string
  type: 'function'
  function: {
    name: string
    /** As the policy wrote it; usually the text of a JSON object. */
    arguments: string
  }
}

/** One message of a conversation in chat completions form. */
export interface ChatMessage {
  role: string
  content?: string | ChatContentPart[] | null
  name?: string
  tool_calls?: ChatToolCall[]
  tool_call_id?: string
  refusal?: string | null
  /** Thinking of the policy, as vLLM, SGLang and DeepSeek name it. */
  reasoning_content?: string
  /** Thinking of the policy, as OpenRouter and newer vLLM name it. */
  reasoning?: string
  [key: string]: unknown
}

/** An answer of the policy. */
export interface AssistantMessage extends ChatMessage {
  role: 'assistant'
  content: string | null
}

/** Body of `POST …/chat/completions`. `model`, `stream` and `stream_options` are set by the client. */
export interface ChatCompletionRequest {
  messages: readonly ChatMessage[]
  [key: string]: unknown
}

export interface ChatUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  [key: string]: unknown
}

export interface ChatToolCallDelta {
  index?: number
  id?: string
  type?: 'function'
  function?: { name?: string; arguments?: string }
}

export interface ChatDelta {
  role?: string
  content?: string | null
  refusal?: string | null
  reasoning_content?: string | null
  reasoning?: string | null
  tool_calls?: ChatToolCallDelta[]
  [key: string]: unknown
}

export interface ChatLogprobs {
  content?: unknown[] | null
  [key: string]: unknown
}

export interface ChatCompletionChunk {
  id?: string
  object?: string
  created?: number
  model?: string
  choices: {
    index?: number
    delta?: ChatDelta
    finish_reason?: string | null
    logprobs?: ChatLogprobs | null
    /** vLLM with `return_token_ids`: ids sampled since the last chunk. */
    token_ids?: number[] | null
    [key: string]: unknown
  }[]
  usage?: ChatUsage | null
  /** vLLM with `return_token_ids`: ids of the rendered prompt, in the first chunk. */
  prompt_token_ids?: number[] | null
  /** SGLang, without streaming: which weights answered. */
  metadata?: { weight_version?: string } | null
  [key: string]: unknown
}

export interface ChatCompletion {
  id: string
  object: 'chat.completion'
  created: number
  model: string
  choices: {
    index: number
    message: AssistantMessage
    finish_reason: string | null
    logprobs: ChatLogprobs | null
    token_ids?: number[]
  }[]
  usage?: ChatUsage
  prompt_token_ids?: number[]
  /** SGLang, without streaming: which weights answered. */
  metadata?: { weight_version?: string }
}
