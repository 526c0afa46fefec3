import { parseJson } from '@osmosis/core/http'
import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { z } from 'zod'

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
  // What was found before a call fails is reported, too.
  const findings: CheckFinding[] = []
  try {
    const first = await endpoint.answer({ messages: [question], tools: [readNote] })
    findings.push(
      ok('endpoint', `${chosen.name} answered`),
      ...tokenFindings(first),
      toolFinding(first),
    )
    findings.push(await prefixFinding(endpoint, first))
    findings.push(await temperatureFinding(endpoint))
    findings.push(await scaleFinding(endpoint))
  } catch (error) {
    findings.push(
      fail(
        'endpoint',
        errorMessage(error),
        'Check that the endpoint runs at --base-url, usually a URL that ends with /v1, and serves --model.',
      ),
    )
  }
  return findings
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
      throw new Error(`The endpoint answered ${response.status}: ${text.slice(0, 300)}`)
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
  const text = message?.content ?? ''
  if (message?.tool_calls?.length) return ok('tool calls', 'are parsed')
  if (/<tool_call>|<function=|<\|python_tag\|>|"name"\s*:\s*"read_note"/.test(text)) {
    return fail(
      'tool calls',
      `The model called the tool in its text, and the endpoint did not parse it: ${shortened(text)}`,
      'Start vLLM with --enable-auto-tool-choice and the --tool-call-parser of the model, e.g. hermes for Qwen.',
    )
  }
  return warn(
    'tool calls',
    `The model did not call the tool that the prompt names. It said: ${shortened(text)}`,
    'Try a larger model, or check that its chat template has tools.',
  )
}

/** Whether the next prompt begins with all tokens of this turn, so that a conversation is one sequence. */
async function prefixFinding(endpoint: Endpoint, first: Answer): Promise<CheckFinding> {
  const message = first.choices[0]?.message ?? {}
  const calls = first.choices[0]?.message.tool_calls ?? []
  const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'ab' }))
  const next = results.length > 0 ? results : [{ role: 'user', content: 'Continue.' }]
  const said = [...(first.prompt_token_ids ?? []), ...(first.choices[0]?.token_ids ?? [])]
  const second = await endpoint.answer({
    messages: [question, { ...message, role: 'assistant' }, ...next],
    tools: [readNote],
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
    return JSON.stringify(answer.choices[0]?.message.content)
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

/** Whether logprobs are those of the distribution that was sampled from, also at other temperatures than 1. */
async function scaleFinding(endpoint: Endpoint): Promise<CheckFinding> {
  const highest = async (temperature: number): Promise<number | undefined> => {
    const body = { messages: [letters], temperature, max_tokens: 1, top_logprobs: 1 }
    const answer = await endpoint.answer(body)
    return answer.choices[0]?.logprobs?.content[0]?.top_logprobs?.[0]?.logprob
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
  return text.length > 200 ? `${text.slice(0, 200)} …` : text
}
