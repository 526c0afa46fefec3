import { randomUUID } from 'node:crypto'

import type { PolicyModel, PolicyRequest } from '@osmosis/controller'
import { answerOf, policyErrorBody } from '@osmosis/controller/answers'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import type { AssistantMessage, ChatCompletion, ChatMessage } from '@osmosis/core/policy'

import type { ChatTemplate } from './chat-template.ts'
import type { ReadAnswer } from './read-answer.ts'

/** What was sampled behind a prompt. */
export interface SampledTokens {
  readonly ids: readonly number[]
  readonly logprobs: readonly number[]
  /** The model, with its version. */
  readonly model: string
}

/** Samples tokens. */
type SampleTokens = (
  prompt: readonly number[],
  settings: { readonly maxTokens: number; readonly seed: number | undefined },
  signal: AbortSignal,
) => Promise<SampledTokens>

/** Options of {@link tokenPolicy}. */
export interface TokenPolicyOptions {
  readonly name: string
  readonly template: ChatTemplate
  readonly readAnswer: ReadAnswer
  readonly sample: SampleTokens
  /** Tokens of a prompt and its answer. */
  readonly maxLength: number
}

/** A conversation up to an answer of the policy, with the ids that it was sampled in. */
interface KnownConversation {
  readonly messages: readonly ChatMessage[]
  readonly ids: readonly number[]
}

/** Samples of rollouts whose conversations are remembered, for each of two versions. */
const mostSamples = 10_000

/** Chat completions over a service that samples tokens: rendering, tool calls and token ids are added here. */
export function tokenPolicy(options: TokenPolicyOptions): PolicyModel {
  // The samples that were answered since the weights have changed, and those of the version before: the others have ended.
  let known = new Map<string, KnownConversation[]>()
  let knownBefore = known
  const versions = new Set<string>()

  function promptOf(
    request: PolicyRequest,
    messages: readonly ChatMessage[],
    tools: readonly unknown[],
  ): number[] {
    const before = knownOf(keyOf(request))
      .filter((one) => continues(one.messages, messages))
      .toSorted((a, b) => b.messages.length - a.messages.length)[0]
    options.template.assertReached(messages, tools, before?.messages.length)
    const continued = before && options.template.continued(before, messages, tools)
    return continued ?? options.template.encode(options.template.text(messages, tools, true))
  }

  function knownOf(key: string): readonly KnownConversation[] {
    return known.get(key) ?? knownBefore.get(key) ?? []
  }

  function remember(
    request: PolicyRequest,
    conversation: KnownConversation,
    version: string,
  ): void {
    if (!versions.has(version)) {
      versions.add(version)
      knownBefore = known
      known = new Map()
    }
    const key = keyOf(request)
    const own = knownOf(key)
    known.delete(key)
    known.set(key, [...own, conversation])
    const [oldest] = known.keys()
    if (known.size > mostSamples && oldest !== undefined) known.delete(oldest)
  }

  async function complete(request: PolicyRequest): Promise<ChatCompletion> {
    const { body, signal } = request
    const { template } = options
    const messages = template.withKnownRoles(listOf(body['messages']) as readonly ChatMessage[])
    assertSampled(body)
    const tools = offeredTools(body)
    const prompt = promptOf(request, messages, tools)
    const sampled = await options.sample(prompt, settingsOf(body, prompt, options), signal)
    const isCut = !template.endIds.has(sampled.ids.at(-1) ?? -1)
    const text = template.decode(isCut ? sampled.ids : sampled.ids.slice(0, -1))
    // Some templates open the thinking in the prompt.
    const isOpened = template.decode(prompt.slice(-4)).trimEnd().endsWith('<think>')
    const answer = isOpened ? `<think>${text}` : text
    const message = options.readAnswer(answer, tools)
    const conversation = { messages: [...messages, message], ids: [...prompt, ...sampled.ids] }
    remember(request, conversation, sampled.model)
    return toCompletion({ prompt, sampled, message, isCut })
  }

  return {
    name: options.name,
    async respond(request) {
      try {
        return answerOf(await complete(request), request.body)
      } catch (error) {
        request.signal.throwIfAborted()
        const isRefused = isOsmosisError(error) && error.code === 'invalid_request'
        const status = isRefused ? 400 : 500
        const refusal = policyErrorBody(
          status,
          error instanceof ContextFull
            ? 'context_length_exceeded'
            : isRefused
              ? 'invalid_request'
              : 'learner_error',
          errorMessage(error),
        )
        return Response.json(refusal, { status })
      }
    },
  }
}

function keyOf({ rolloutId, sampleId }: PolicyRequest): string {
  return JSON.stringify([rolloutId, sampleId])
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Whether `messages` begin with those of a known conversation. */
function continues(known: readonly ChatMessage[], messages: readonly ChatMessage[]): boolean {
  return (
    known.length < messages.length &&
    known.every((message, at) => sameTurn(message) === sameTurn(messages[at]))
  )
}

/** What has to be equal for two messages to be the same turn. Thinking may be left out of an echo. */
function sameTurn(message: ChatMessage | undefined): string {
  const { role, content, tool_calls: calls, tool_call_id: id } = message ?? { role: '' }
  const called = (calls ?? []).map(({ function: { name, arguments: args } }) => [name, args])
  return JSON.stringify([role, content ?? '', called, role === 'tool' ? id : null])
}

/** Fields that would make the recorded logprobs those of another distribution, and the values that do not. */
const unchanged: Readonly<Record<string, readonly unknown[]>> = {
  top_p: [1],
  top_k: [-1, 0],
  min_p: [0],
  typical_p: [1],
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  min_tokens: [0],
  bad_words: [],
  allowed_token_ids: [],
  ignore_eos: [false],
}

/**
 * Types of `response_format` with which frameworks ask for a structured output. The policy learns to give it: an answer
 * without it is graded.
 */
const learnedFormats: ReadonlySet<unknown> = new Set(['text', 'json_object', 'json_schema'])

/** Fields that hold an answer to a form. */
const constraints = [
  'guided_json',
  'guided_regex',
  'guided_choice',
  'guided_grammar',
  'structured_outputs',
]

/** @throws OsmosisError with code `invalid_request` that names what the service cannot sample */
function assertSampled(body: Readonly<Record<string, unknown>>): void {
  const isSet = (name: string): boolean => body[name] !== undefined && body[name] !== null
  const bias = body['logit_bias'] ?? {}
  const changed = Object.entries(unchanged).find(
    ([name, values]) => isSet(name) && !isEmptyList(body[name]) && !values.includes(body[name]),
  )?.[0]
  const isBiased = typeof bias !== 'object' || Object.values(bias).some((value) => value !== 0)
  const name = changed ?? (isBiased ? 'logit_bias' : undefined)
  if (name !== undefined) {
    throw refused(
      `Only what was sampled from the model's own distribution can be trained: leave ${name} out.`,
    )
  }
  const { type } = (body['response_format'] ?? { type: 'text' }) as { type?: unknown }
  const form = learnedFormats.has(type) ? constraints.find((one) => isSet(one)) : 'response_format'
  if (form !== undefined) {
    throw refused(
      `The service cannot hold answers to a form: leave ${form} out, and ask for the form in a message.`,
    )
  }
}

/** The tools that the model may call: none with `tool_choice` none. */
function offeredTools(body: Readonly<Record<string, unknown>>): readonly unknown[] {
  for (const name of ['functions', 'function_call']) {
    const value = body[name] ?? 'auto'
    if (value === 'auto' || isEmptyList(value)) continue
    throw refused(`The service does not take ${name}: pass tools and tool_choice.`)
  }
  const choice = body['tool_choice'] ?? 'auto'
  if (choice !== 'auto' && choice !== 'none') {
    throw refused(
      `The service cannot force a call: leave tool_choice out, or pass auto or none. It is ${JSON.stringify(choice)}.`,
    )
  }
  return choice === 'none' ? [] : listOf(body['tools'])
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function refused(message: string): OsmosisError {
  return new OsmosisError('invalid_request', message)
}

/** Nothing more fits into the conversation. */
class ContextFull extends OsmosisError {
  constructor(tokens: number, most: number) {
    super(
      'invalid_request',
      `The conversation has ${tokens} tokens, and the model takes ${most} with its answer. Raise max_prompt_length in [training], or --max-length where it is set.`,
    )
  }
}

function settingsOf(
  body: Readonly<Record<string, unknown>>,
  prompt: readonly number[],
  { maxLength }: TokenPolicyOptions,
): { readonly maxTokens: number; readonly seed: number | undefined } {
  const { temperature, seed, stop } = body
  const n = body['n'] ?? 1
  if (typeof temperature === 'number' && temperature !== 1) {
    throw new OsmosisError(
      'invalid_request',
      `The service trains at temperature 1 alone, and the request asks for ${temperature}. Leave temperature out.`,
    )
  }
  if (n !== 1 || (Array.isArray(stop) ? stop.length > 0 : Boolean(stop))) {
    throw new OsmosisError(
      'invalid_request',
      'The service gives one answer, up to the end token of the model: leave n and stop out.',
    )
  }
  const room = maxLength - prompt.length
  if (room < 1) throw new ContextFull(prompt.length, maxLength)
  const asked = body['max_completion_tokens'] ?? body['max_tokens']
  const maxTokens = typeof asked === 'number' ? Math.min(asked, room) : room
  return { maxTokens, seed: typeof seed === 'number' ? seed : undefined }
}

function toCompletion(answer: {
  readonly prompt: number[]
  readonly sampled: SampledTokens
  readonly message: AssistantMessage
  readonly isCut: boolean
}): ChatCompletion {
  const { prompt, sampled, message, isCut } = answer
  const { ids, logprobs, model } = sampled
  return {
    id: `chatcmpl-${randomUUID()}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model,
    prompt_token_ids: prompt,
    choices: [
      {
        index: 0,
        message,
        finish_reason: isCut ? 'length' : message.tool_calls ? 'tool_calls' : 'stop',
        logprobs: {
          content: logprobs.map((logprob) => ({
            token: '',
            logprob,
            bytes: null,
            top_logprobs: [],
          })),
        },
        token_ids: [...ids],
      },
    ],
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: ids.length,
      total_tokens: prompt.length + ids.length,
    },
  }
}
