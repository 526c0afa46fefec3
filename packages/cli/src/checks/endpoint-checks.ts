import { parseJson } from '@osmosis/core/http'
import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { z } from 'zod'

import { drawDeviation } from './drawn-tokens.ts'
import { fail, ok, warn, type CheckFinding } from './finding.ts'
import type { ChosenPolicy } from '../inputs/choose-policy.ts'

/** Time limit of a call. Milliseconds. */
const patienceMs = 60_000

const tokensSchema = z.array(z.int())
const answerSchema = z.object({
  prompt_token_ids: tokensSchema.nullish(),
  choices: z
    .array(
      z.object({
        message: z.looseObject({
          content: z.string().nullish(),
          reasoning_content: z.string().nullish(),
          reasoning: z.string().nullish(),
          tool_calls: z.array(z.looseObject({ id: z.string() })).nullish(),
        }),
        token_ids: tokensSchema.nullish(),
        logprobs: z
          .object({
            content: z.array(
              z.looseObject({
                logprob: z.number(),
                top_logprobs: z.array(z.object({ logprob: z.number() })).nullish(),
              }),
            ),
          })
          .nullish(),
      }),
    )
    .min(1),
})
type Answer = z.infer<typeof answerSchema>

const readNote = {
  type: 'function',
  function: {
    name: 'read_note',
    description: 'Reads the note that the code is written on.',
    parameters: { type: 'object', properties: {} },
  },
}
const question: ChatMessage = {
  role: 'user',
  content: 'Call the tool read_note, then tell me the code that it returns.',
}

/**
 * Checks whether an endpoint gives trainers what they need: token ids and logprobs of every answer, parsed tool calls,
 * prompts that continue with the tokens of the turn before, and the temperature of the request.
 */
export async function endpointFindings(chosen: ChosenPolicy): Promise<CheckFinding[]> {
  const endpoint = new Endpoint(chosen)
  const findings: CheckFinding[] = []
  let first: Answer
  try {
    first = await endpoint.answer({ messages: [question], tools: [readNote] })
    findings.push(ok('endpoint', `${chosen.name} answered`))
  } catch (error) {
    // A server without a parser of tool calls refuses tools, and answers all else.
    const plain = await endpoint.answer({ messages: [question] }).catch(() => undefined)
    if (!(error instanceof Refusal) || plain === undefined) {
      return [fail('endpoint', errorMessage(error), adviceOf(error))]
    }
    first = plain
    findings.push(
      ok('endpoint', `${chosen.name} answered`),
      fail('tool calls', `The endpoint refuses tools. ${error.message}`, parserAdvice),
    )
  }
  findings.push(...tokenFindings(first))
  const isRefused = findings.some(({ check }) => check === 'tool calls')
  if (!isRefused) findings.push(toolFinding(first))
  const tools = isRefused ? {} : { tools: [readNote] }
  const checks: readonly (readonly [string, () => Promise<CheckFinding>])[] = [
    ['prefixes', () => prefixFinding(endpoint, first, tools)],
    ['temperature', () => temperatureFinding(endpoint)],
    ['sampling', () => samplingFinding(endpoint)],
    ['logprob scale', () => scaleFinding(endpoint)],
  ]
  for (const [name, find] of checks) {
    // One call that fails says nothing about the others.
    findings.push(
      await find().catch((error: unknown) => fail(name, errorMessage(error), adviceOf(error))),
    )
  }
  return findings
}

/** An answer with another status than 200. */
class Refusal extends Error {
  readonly status: number

  constructor(status: number, text: string) {
    super(`The endpoint answered ${status}: ${text.slice(0, 300)}`)
    this.status = status
  }
}

const parserAdvice =
  'Start vLLM with --enable-auto-tool-choice and the --tool-call-parser of the model, e.g. hermes for Qwen.'

/** What to do about a call that failed. */
function adviceOf(error: unknown): string {
  const status = error instanceof Refusal ? error.status : 0
  if (status === 401 || status === 403) {
    return 'The endpoint does not take the key: --api-key-env names the variable that holds one.'
  }
  if (status === 404) {
    return 'Check that --base-url is a URL that usually ends with /v1, and --model a name that the server has: GET /v1/models lists them.'
  }
  if (status === 429 || status >= 500) {
    return 'The server is loading, busy or broken: read its log, and try again.'
  }
  if (status >= 400) return 'The server does not take this request: read what it says, and its log.'
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `The server gave no answer within ${patienceMs / 1000} s: it may be loading the model, or compute too slowly for rollouts.`
  }
  return 'Check that the endpoint runs at --base-url, usually a URL that ends with /v1, and serves --model.'
}

class Endpoint {
  readonly #chosen: ChosenPolicy

  constructor(chosen: ChosenPolicy) {
    this.#chosen = chosen
  }

  async answer(body: Readonly<Record<string, unknown>>): Promise<Answer> {
    const response = await this.#chosen.policy.respond({
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
    const text = await response.text()
    if (response.status !== 200) {
      throw new Refusal(response.status, text)
    }
    const parsed = answerSchema.safeParse(parseJson(text))
    if (parsed.success) return parsed.data
    throw new Error(
      `The answer is not a chat completion: ${z.prettifyError(parsed.error)}\n${text.slice(0, 300)}`,
    )
  }
}

function tokenFindings(answer: Answer): CheckFinding[] {
  const [choice] = answer.choices
  const ids = choice?.token_ids?.length
  const prompt = answer.prompt_token_ids?.length
  const logprobs = choice?.logprobs?.content.length
  const idFinding =
    ids !== undefined && prompt !== undefined
      ? ok('token ids', `${prompt} of the prompt, ${ids} of the answer`)
      : fail(
          'token ids',
          `The answer has no ${ids === undefined ? 'choices[0].token_ids' : 'prompt_token_ids'}, though the request had return_token_ids: true.`,
          'Use an endpoint that returns them, such as vLLM 0.10.2 or newer. Without them nothing can be trained.',
        )
  if (logprobs === undefined) {
    return [
      idFinding,
      fail(
        'logprobs',
        'The answer has no choices[0].logprobs, though the request had logprobs: true.',
        'Use an endpoint that returns them; vLLM does unless --max-logprobs is 0.',
      ),
    ]
  }
  if (ids !== undefined && ids !== logprobs) {
    return [
      idFinding,
      fail(
        'logprobs',
        `The answer has ${logprobs} logprobs for ${ids} tokens.`,
        'Each token needs its own: switch off whatever removes tokens from the answer, such as stop strings.',
      ),
    ]
  }
  return [idFinding, ok('logprobs', 'one for each token of the answer')]
}

function toolFinding({ choices }: Answer): CheckFinding {
  const message = choices[0]?.message
  const text = textOf(message)
  if (message?.tool_calls?.length) return ok('tool calls', 'are parsed')
  if (/<tool_call>|<function=|<\|python_tag\|>|"name"\s*:\s*"read_note"/.test(text)) {
    return fail(
      'tool calls',
      `The model called the tool in its text, and the endpoint did not parse it: ${shortened(text)}`,
      parserAdvice,
    )
  }
  return warn(
    'tool calls',
    `The model did not call the tool that the prompt names. It said: ${shortened(text)}`,
    'Try a larger model, or check that its chat template has tools.',
  )
}

/** What the policy wrote: a server with a parser of thinking takes that out of the content. */
function textOf(message: Answer['choices'][number]['message'] | undefined): string {
  const { content, reasoning_content: thought, reasoning } = message ?? {}
  return `${thought ?? reasoning ?? ''}${content ?? ''}`
}

/** Whether the next prompt begins with all tokens of this turn, so that a conversation is one sequence. */
async function prefixFinding(
  endpoint: Endpoint,
  first: Answer,
  tools: Readonly<Record<string, unknown>>,
): Promise<CheckFinding> {
  const message = first.choices[0]?.message ?? {}
  const calls = first.choices[0]?.message.tool_calls ?? []
  const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'ab' }))
  const next = results.length > 0 ? results : [{ role: 'user', content: 'Continue.' }]
  const said = [...(first.prompt_token_ids ?? []), ...(first.choices[0]?.token_ids ?? [])]
  const second = await endpoint.answer({
    messages: [question, { ...message, role: 'assistant' }, ...next],
    ...tools,
  })
  const prompt = second.prompt_token_ids
  if (said.length === 0 || !prompt) return warn('prefixes', 'Not checked: there are no token ids.')
  const other = said.findIndex((id, at) => prompt[at] !== id)
  if (other === -1) return ok('prefixes', 'the second turn continues the tokens of the first')
  const within = other < (first.prompt_token_ids?.length ?? 0) ? 'prompt' : 'answer'
  return warn(
    'prefixes',
    `The prompt of the second turn differs from the first turn at token ${other} of ${said.length}, within the ${within}.`,
    'The endpoint renders the history again. Each turn then trains as a sequence of its own, which costs time. A chat template that keeps what was said, thinking included, avoids it.',
  )
}

const letters = { role: 'user', content: 'Write twenty random letters.' }

/** Whether an answer at temperature 0 is always the same, and answers at 1.5 are not. */
async function temperatureFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const ask = async (temperature: number): Promise<string> => {
    const answer = await endpoint.answer({ messages: [letters], temperature, max_tokens: 24 })
    return textOf(answer.choices[0]?.message)
  }
  const cold = new Set([await ask(0), await ask(0)])
  const hot = new Set(await Promise.all([1.5, 1.5, 1.5, 1.5].map(ask)))
  if (hot.size === 1) {
    return fail(
      'temperature',
      'Four answers at temperature 1.5 are the same.',
      'The endpoint ignores the temperature of the request, or caches answers: attempts at a row would not differ, and nothing can be learned.',
    )
  }
  if (cold.size > 1) {
    return warn(
      'temperature',
      'Two answers at temperature 0 differ.',
      'The endpoint ignores the temperature of the request, or its arithmetic depends on the other requests of a batch.',
    )
  }
  return ok('temperature', 'is that of the request')
}

/** Its answers vary, which shows most. */
const invention = { role: 'user', content: 'Invent a sentence that nobody has ever said.' }

/** Beyond this many standard deviations it is no chance: once in a million. */
const mostDeviation = 5

/** Whether tokens are drawn as their logprobs say. */
async function samplingFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const body = { messages: [invention], temperature: 1, max_tokens: 64, top_logprobs: 20 }
  const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(() => endpoint.answer(body)))
  const drawn = answers.flatMap(({ choices }) => choices[0]?.logprobs?.content ?? [])
  const deviation = drawDeviation(drawn)
  if (deviation === undefined) {
    return warn('sampling', 'Not checked: the answers have too few tokens with top_logprobs.')
  }
  if (Math.abs(deviation) <= mostDeviation) {
    return ok('sampling', 'tokens are drawn as their logprobs say')
  }
  return warn(
    'sampling',
    `At temperature 1 the server draws ${deviation > 0 ? 'likely' : 'unlikely'} tokens more often than their logprobs say.`,
    'It has defaults of its own for what requests leave out, such as top_k, top_p, min_p or penalties. vLLM takes them from the model’s folder unless it is started with --generation-config vllm; llama-server has none with --top-k 0 --top-p 1 --min-p 0.',
  )
}

/** Whether logprobs are those of the distribution that was sampled from, also at other temperatures than 1. */
async function scaleFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const highest = async (temperature: number): Promise<number | undefined> => {
    // Servers may list the token that was drawn before the most likely one.
    const body = { messages: [letters], temperature, max_tokens: 1, top_logprobs: 5 }
    const answer = await endpoint.answer(body)
    const listed = answer.choices[0]?.logprobs?.content[0]?.top_logprobs ?? []
    return listed.length === 0 ? undefined : Math.max(...listed.map(({ logprob }) => logprob))
  }
  const [warm, cool] = [await highest(1), await highest(0.5)]
  if (warm === undefined || cool === undefined) {
    return warn('logprob scale', 'Not checked: the answer has no top_logprobs.')
  }
  if (Math.abs(warm - cool) > 1e-3 || warm > -1e-2) {
    return ok('logprob scale', 'logprobs are those of the sampled distribution')
  }
  return warn(
    'logprob scale',
    'Logprobs are those of temperature 1, whatever the temperature of the request.',
    'Train at temperature 1, or start vLLM with --logprobs-mode processed_logprobs.',
  )
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > 200 ? `${line.slice(0, 200)} …` : line
}
