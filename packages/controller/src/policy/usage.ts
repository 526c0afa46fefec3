import { parseJson } from '@osmosis/core/http'
import { z } from 'zod'

/** Tokens, as the policy's answers reported them. */
export interface TokenUsage {
  readonly promptTokens: number
  readonly completionTokens: number
  readonly totalTokens: number
}

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

  /** Counts a call. The returned function sets its usage; a later one replaces an earlier one. */
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

const tokens = z.number().nonnegative().catch(0)
const answerWithUsage = z.object({
  usage: z.object({
    prompt_tokens: tokens,
    completion_tokens: tokens,
    total_tokens: z.number().nonnegative().optional().catch(undefined),
  }),
})

type Bytes = AsyncIterable<Uint8Array>

/**
 * Forwards an answer's bytes unchanged and reports the usage in them, before the event that has it is
 * forwarded or before the response ends. So a caller that has read an answer finds it counted.
 */
export function observeUsage(
  contentType: string,
  report: (usage: TokenUsage) => void,
): (chunks: Bytes) => Bytes {
  const observe = contentType.startsWith('text/event-stream') ? observeEvents : observeObject
  return (chunks) => observe(chunks, report)
}

async function* observeEvents(chunks: Bytes, report: (usage: TokenUsage) => void): Bytes {
  const decoder = new TextDecoder()
  let unfinished = ''
  for await (const chunk of chunks) {
    const lines = (unfinished + decoder.decode(chunk, { stream: true })).split('\n')
    unfinished = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('data:') && line.includes('"usage"')) reportUsage(line.slice(5), report)
    }
    yield chunk
  }
}

async function* observeObject(chunks: Bytes, report: (usage: TokenUsage) => void): Bytes {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true })
    yield chunk
  }
  // The caller sees the end of the response after this.
  reportUsage(text, report)
}

function reportUsage(text: string, report: (usage: TokenUsage) => void): void {
  const usage = answerWithUsage.safeParse(parseJson(text)).data?.usage
  if (usage === undefined) return
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage
  const totalTokens = usage.total_tokens ?? promptTokens + completionTokens
  report({ promptTokens, completionTokens, totalTokens })
}
