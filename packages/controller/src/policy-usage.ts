import type { TokenUsage } from './rollout-result.ts'

/** Model calls of one rollout and the tokens their answers reported. */
export class PolicyUsage {
  #calls = 0
  #tokens: TokenUsage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 }

  get calls(): number {
    return this.#calls
  }

  get tokens(): TokenUsage {
    return this.#tokens
  }

  /** Counts a call; the returned function takes its usage, the newest replacing earlier ones. */
  beginCall(): (usage: TokenUsage) => void {
    this.#calls += 1
    let counted: TokenUsage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 }
    return (usage) => {
      this.#tokens = {
        promptTokens: this.#tokens.promptTokens + usage.promptTokens - counted.promptTokens,
        completionTokens:
          this.#tokens.completionTokens + usage.completionTokens - counted.completionTokens,
        totalTokens: this.#tokens.totalTokens + usage.totalTokens - counted.totalTokens,
      }
      counted = usage
    }
  }
}
