import { errorMessage } from '@osmosis/core'
import { isAboutKey, parseJson, refusalOf } from '@osmosis/core/http'
import { PassingAnswer, type ChatCompletion } from '@osmosis/core/policy'
import { z } from 'zod'

import type { ChosenPolicy } from '../../inputs/choose-policy.ts'

/** Time limit of a call. Milliseconds. */
const patienceMs = 60_000

const tokensSchema = z.array(z.int())
const answerSchema = z.object({
  prompt_token_ids: tokensSchema.nullish(),
  usage: z.looseObject({ completion_tokens: z.number().nullish() }).nullish(),
  choices: z
    .array(
      z.object({
        message: z.looseObject({
          content: z.string().nullish(),
          reasoning_content: z.string().nullish(),
          reasoning: z.string().nullish(),
          tool_calls: z.array(z.looseObject({ id: z.string().nullish() })).nullish(),
        }),
        token_ids: tokensSchema.nullish(),
        logprobs: z
          .object({
            content: z
              .array(
                z.looseObject({
                  logprob: z.number(),
                  top_logprobs: z.array(z.object({ logprob: z.number() })).nullish(),
                }),
              )
              .nullish(),
          })
          .nullish(),
      }),
    )
    .min(1),
})
/** An answer, as far as trainers need it. */
export type Answer = z.infer<typeof answerSchema>

/** An answer with another status than 200. */
export class RefusedRequest extends Error {
  readonly status: number
  readonly isAboutKey: boolean

  constructor(status: number, text: string) {
    super(`The endpoint answered ${status}: ${text.slice(0, 300)}`)
    this.status = status
    this.isAboutKey = isAboutKey(refusalOf(status, text))
  }
}

/** A streamed answer that rollouts would not use. */
class BrokenAnswer extends Error {}

/** What to do about a call that failed. */
export function adviceOf(error: unknown): string {
  const { status, isAboutKey: isKey } =
    error instanceof RefusedRequest ? error : { status: 0, isAboutKey: false }
  if (isKey) {
    return 'The endpoint does not take the key: --api-key-env names the variable that holds one.'
  }
  if (status === 404) {
    return 'Check that --base-url is a URL that usually ends with /v1, and --model a name that the server has: GET /v1/models lists them.'
  }
  if (status === 429 || status >= 500) {
    return 'The server is loading, busy or broken: read its log, and try again.'
  }
  if (status >= 400) return 'The server does not take this request: read what it says, and its log.'
  if (error instanceof BrokenAnswer) {
    return 'Rollouts stream, and use no answer that breaks off or cannot be read: read the log of the server, and of what stands in front of it.'
  }
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `The server gave no answer within ${patienceMs / 1000} s: it may be loading the model, or compute too slowly for rollouts.`
  }
  return 'Check that the endpoint runs at --base-url, usually a URL that ends with /v1, and serves --model.'
}

/** The endpoint, asked as a rollout asks it. */
export class Endpoint {
  readonly #chosen: ChosenPolicy

  constructor(chosen: ChosenPolicy) {
    this.#chosen = chosen
  }

  /** The answer in one piece. */
  async answer(body: Readonly<Record<string, unknown>>): Promise<Answer> {
    const response = await this.#ask(body)
    const text = await response.text()
    if (response.status !== 200) throw new RefusedRequest(response.status, text)
    return toAnswer(parseJson(text), text)
  }

  /** The answer as a stream, read as rollouts read it. */
  async streamed(body: Readonly<Record<string, unknown>>): Promise<Answer> {
    const streaming = { stream: true, stream_options: { include_usage: true } }
    const response = await this.#ask({ ...body, ...streaming })
    if (response.status !== 200) throw new RefusedRequest(response.status, await response.text())
    const completion = await readStream(response)
    return toAnswer(completion, JSON.stringify(completion))
  }

  #ask(body: Readonly<Record<string, unknown>>): Promise<Response> {
    return this.#chosen.policy.respond({
      rolloutId: 'doctor',
      sampleId: '',
      headers: {},
      body: {
        max_tokens: 256,
        temperature: 1,
        logprobs: true,
        return_token_ids: true,
        ...body,
      },
      signal: AbortSignal.timeout(patienceMs),
    })
  }
}

async function readStream(response: Response): Promise<ChatCompletion> {
  let completion: ChatCompletion | undefined
  let broken = 'it has no end'
  const answer = new PassingAnswer(response.headers.get('content-type') ?? '', {
    onAnswer: (whole) => (completion = whole),
    onBroken: (reason) => (broken = reason),
  })
  try {
    const pieces: AsyncIterable<Uint8Array> | [] = response.body ?? []
    for await (const piece of pieces) answer.add(piece)
    answer.end()
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') throw error
    answer.breakOff(errorMessage(error))
  }
  if (completion === undefined) throw new BrokenAnswer(`The streamed answer is broken: ${broken}`)
  return completion
}

function toAnswer(value: unknown, text: string): Answer {
  const parsed = answerSchema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new Error(
    `The answer is not a chat completion: ${z.prettifyError(parsed.error)}\n${text.slice(0, 300)}`,
  )
}

/** What the policy wrote: a server with a parser of thinking takes that out of the content. */
export function textOf(message: Answer['choices'][number]['message'] | undefined): string {
  const { content, reasoning_content: thought, reasoning } = message ?? {}
  return `${thought ?? reasoning ?? ''}${content ?? ''}`
}
