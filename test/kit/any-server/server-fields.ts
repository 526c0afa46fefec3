/** The servers whose own fields answers can have. */
export type NamedServer = 'llama.cpp' | 'vllm'

/** Fields that a server adds to those that all have, by the object that has them. */
interface ServerFields {
  /** An answer as one JSON object. */
  readonly answer?: object
  readonly message?: object
  readonly choice?: object
  readonly usage?: object
  /** What stands beside `usage`. */
  readonly besideUsage?: object
  readonly everyChunk?: object
  readonly firstChunk?: object
  /** The choice of the first chunk, of each later one, and of the one with the finish reason. */
  readonly firstChoice?: object
  readonly laterChoice?: object
  readonly lastChoice?: object
  /** A delta with a piece of a call. */
  readonly callDelta?: object
  /** `usage` of a stream, and what stands beside it. */
  readonly streamedUsage?: object
  readonly besideStreamedUsage?: object
}

const timings = {
  cache_n: 0,
  prompt_n: 7,
  prompt_ms: 1.5,
  prompt_per_token_ms: 0.2,
  prompt_per_second: 4666.7,
  predicted_n: 5,
  predicted_ms: 50,
  predicted_per_token_ms: 10,
  predicted_per_second: 100,
}
const cached = { prompt_tokens_details: { cached_tokens: 0 } }
const vllmFingerprint = { system_fingerprint: 'vllm-0.32.0-abc' }

/** As they were recorded from the servers. */
const fields: Readonly<Record<NamedServer, ServerFields>> = {
  'llama.cpp': {
    answer: { system_fingerprint: 'b1-abc' },
    everyChunk: { system_fingerprint: 'b1-abc' },
    usage: cached,
    besideUsage: { timings },
    streamedUsage: cached,
    besideStreamedUsage: { timings },
  },
  vllm: {
    answer: {
      service_tier: null,
      ...vllmFingerprint,
      prompt_logprobs: null,
      prompt_token_ids: null,
      prompt_text: null,
      kv_transfer_params: null,
      ec_transfer_params: null,
      metrics: null,
    },
    message: {
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    },
    choice: { logprobs: null, stop_reason: null, token_ids: null, routed_experts: null },
    usage: { prompt_tokens_details: null, completion_tokens_details: null },
    firstChunk: { prompt_token_ids: null, prompt_text: null },
    firstChoice: { logprobs: null },
    laterChoice: { logprobs: null, token_ids: null },
    lastChoice: { stop_reason: null },
    callDelta: { content: null },
    besideStreamedUsage: vllmFingerprint,
  },
}

export function fieldsOf(server: NamedServer | 'none'): ServerFields {
  return server === 'none' ? {} : fields[server]
}
