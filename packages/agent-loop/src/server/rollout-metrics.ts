import type { RolloutMetrics } from '@osmosis/protocol/wire'

/** Counts the calls and tokens of a rollout; its time starts with the constructor. */
export class MetricsCounter {
  readonly #start = performance.now()
  #llmMs = 0
  #toolMs = 0
  #llmCalls = 0
  #toolCalls = 0
  #promptTokens = 0
  #responseTokens = 0

  llmCall(latencyMs: number, usage: { prompt_tokens?: number; completion_tokens?: number }): void {
    this.#llmCalls += 1
    this.#llmMs += latencyMs
    this.#promptTokens += usage.prompt_tokens ?? 0
    this.#responseTokens += usage.completion_tokens ?? 0
  }

  toolCall(latencyMs: number): void {
    this.#toolCalls += 1
    this.#toolMs += latencyMs
  }

  snapshot(): RolloutMetrics {
    return {
      total_latency_ms: performance.now() - this.#start,
      llm_latency_ms: this.#llmMs,
      tool_latency_ms: this.#toolMs,
      num_llm_calls: this.#llmCalls,
      num_tool_calls: this.#toolCalls,
      prompt_tokens: this.#promptTokens,
      response_tokens: this.#responseTokens,
      max_context_tokens: 0,
    }
  }
}
