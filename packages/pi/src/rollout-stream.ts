import type { StreamFn } from '@earendil-works/pi-agent-core'
import {
  type AssistantMessageEventStream,
  createAssistantMessageEventStream,
  type AssistantMessage,
  type Message,
  getCurrentTools,
  getSystemMessageText,
  type ImageContent,
  renderSystemMessageUpdate,
  type TextContent,
} from '@earendil-works/pi-ai'
import {
  OsmosisError,
  type RolloutContext,
  type RolloutSample,
  sharedSampleSource,
  type SampleSource,
  toRolloutSample,
} from '@osmosis/core'
import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'
import { ModelOrigin } from '@osmosis/core/workflow'

import { AnswerMessage } from './answer-message.ts'

/** Settings of {@link rolloutStreamFn}. */
export interface RolloutStreamSettings {
  /** The sample id of its calls. */
  name: string
  /** What the calls are for, such as `title`. Default: `agent`. */
  purpose?: string | undefined
  /** Whether the answers are training data. Default: true. */
  trainable?: boolean | undefined
  /** More fields of the request body, sent as they are: `temperature`, `max_tokens`, `min_p`, … */
  params?: Readonly<Record<string, unknown>> | undefined
  /** Answers outside of rollouts, so that one program serves both. */
  fallback?: StreamFn | undefined
}

type Call = Parameters<StreamFn>

/**
 * The policy, whichever that is at the time, as the stream function of an agent:
 * `new Agent({ streamFn: rolloutStreamFn('main') })`. The rollout is found when the function is called. All calls of one name are one
 * sample.
 *
 * A call that fails ends the run of the agent with an error message, as Pi demands, and fails the rollout unless a later call of the
 * sample is answered. Of the agent's model nothing is sent.
 *
 * @throws OsmosisError, from the function, with code `no_rollout_context` outside of rollouts without a `fallback`, or
 * `wrong_rollout_context` in the async context of another rollout
 */
export function rolloutStreamFn(settings: string | RolloutStreamSettings): StreamFn {
  const all = typeof settings === 'string' ? { name: settings } : settings
  const origin = new ModelOrigin()
  return (...call) => {
    const rollout = origin.ofCall('The function of rolloutStreamFn()')
    if (rollout !== undefined) return answerOf(rollout, all, call)
    if (all.fallback !== undefined) return all.fallback(...call)
    throw new OsmosisError(
      'no_rollout_context',
      'The function of rolloutStreamFn() needs an active rollout: run the agent inside AgentWorkflow.run(), or give another function for outside: rolloutStreamFn({ name, fallback: … }).',
    )
  }
}

function answerOf(
  rollout: RolloutContext,
  settings: RolloutStreamSettings,
  [model, context, options = {}]: Call,
): AssistantMessageEventStream {
  const { name, purpose, trainable, params } = settings
  // A conversation that is not training data must not become that of the sample.
  const sample = trainable === false ? new PiSample() : sampleOf(rollout, name)
  const policy = rollout.policy(name)
  const events = createAssistantMessageEventStream()
  const answer = new AnswerMessage(events, model)
  const recorded = sample.begin(context.messages)
  const ask = async (): Promise<void> => {
    const { signal, temperature, maxTokens, samplingParams, toolChoice, onPayload } = options
    try {
      const tools = chatTools(context.messages)
      const body = {
        messages: chatMessages(context.messages),
        ...(tools.length > 0 ? { tools } : {}),
        ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
        ...params,
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
        ...samplingParams,
      }
      const changed = (await onPayload?.(body, model)) as typeof body | undefined
      const headers = { 'user-agent': 'pi' }
      const chunks = policy.stream(changed ?? body, { signal, purpose, trainable, headers })
      for await (const chunk of chunks) answer.add(chunk)
      const message = answer.finish(await chunks.completion)
      recorded.succeed(message)
      answer.end(message)
    } catch (error) {
      const isAborted = signal?.aborted === true
      if (!isAborted) recorded.fail(error)
      answer.fail(error, isAborted)
    }
  }
  sample.waitFor(ask())
  return events
}

/** Receives the end of a call. */
interface RecordedPiCall {
  succeed(message: AssistantMessage): void
  fail(error: unknown): void
}

/** The latest conversation of a sample in Pi's own messages, and whether its latest call failed. */
class PiSample implements SampleSource {
  readonly requiresModelCall = true
  readonly #open = new Set<Promise<void>>()
  #messages: readonly Message[] = []
  #latest = 0
  #count = 0
  /** `seenUpTo`: how many calls had started by then. */
  #failed: { error: Error; seenUpTo: number } | undefined

  begin(prompt: readonly Message[]): RecordedPiCall {
    const number = (this.#count += 1)
    // The agent appends to its list while the call is in progress.
    const before = [...prompt]
    this.#note(number, before)
    return {
      succeed: (message) => {
        this.#note(number, [...before, message])
        // A call that began before another failed does not recover from it.
        if (number > (this.#failed?.seenUpTo ?? 0)) this.#failed = undefined
      },
      fail: (error) => {
        const reason = error instanceof Error ? error : new Error(String(error))
        this.#failed = { error: reason, seenUpTo: this.#count }
      },
    }
  }

  /** The sample is not complete before the call has ended. */
  waitFor(call: Promise<void>): void {
    const ended = call.finally(() => this.#open.delete(ended))
    this.#open.add(ended)
  }

  async getSample(id: string): Promise<RolloutSample> {
    await Promise.all(this.#open)
    return toRolloutSample({ id, messages: this.#messages })
  }

  unnoticedError(): Error | undefined {
    return this.#failed?.error
  }

  #note(number: number, messages: readonly Message[]): void {
    if (number < this.#latest) return
    this.#latest = number
    this.#messages = messages
  }
}

const kind = Symbol.for('osmosis.pi')

/**
 * The sample of this name, registered with the rollout when it is new.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
function sampleOf(rollout: RolloutContext, name: string): PiSample {
  return sharedSampleSource(rollout, name, { kind, create: () => new PiSample() })
}

/** The tools of a conversation in chat completions form. */
function chatTools(messages: readonly Message[]): object[] {
  return getCurrentTools(messages).map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))
}

/**
 * The messages of Pi in chat completions form. Turns that failed or were aborted are left out, as Pi's own clients do; images of tool
 * results follow their turn in a user message.
 */
function chatMessages(messages: readonly Message[]): ChatMessage[] {
  const chat: ChatMessage[] = []
  let images: ImageContent[] = []
  const sendImages = (): void => {
    if (images.length > 0) chat.push({ role: 'user', content: images.map(chatPart) })
    images = []
  }
  for (const [index, message] of messages.entries()) {
    if (message.role !== 'toolResult') sendImages()
    switch (message.role) {
      case 'system': {
        const text =
          index === 0 ? getSystemMessageText(message) : renderSystemMessageUpdate(message)
        if (text !== '') chat.push({ role: 'system', content: text })
        break
      }
      case 'user':
        chat.push({ role: 'user', content: userContent(message.content) })
        break
      case 'assistant':
        if (message.stopReason !== 'error' && message.stopReason !== 'aborted') {
          chat.push(assistantMessage(message))
        }
        break
      case 'toolResult': {
        const texts = message.content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
        images.push(...message.content.filter((part) => part.type === 'image'))
        chat.push({ role: 'tool', tool_call_id: message.toolCallId, content: texts.join('\n') })
      }
    }
  }
  sendImages()
  return chat
}

function userContent(content: string | (TextContent | ImageContent)[]): string | ChatContentPart[] {
  if (typeof content === 'string') return content
  const [only, ...others] = content
  return only?.type === 'text' && others.length === 0 ? only.text : content.map(chatPart)
}

function chatPart(part: TextContent | ImageContent): ChatContentPart {
  if (part.type === 'text') return { type: 'text', text: part.text }
  return { type: 'image_url', image_url: { url: `data:${part.mimeType};base64,${part.data}` } }
}

function assistantMessage({ content }: AssistantMessage): ChatMessage {
  let text = ''
  let thinking = ''
  const calls: NonNullable<ChatMessage['tool_calls']> = []
  for (const part of content) {
    if (part.type === 'text') text += part.text
    else if (part.type === 'thinking') thinking += part.thinking
    else {
      const called = { name: part.name, arguments: JSON.stringify(part.arguments) }
      calls.push({ id: part.id, type: 'function', function: called })
    }
  }
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(thinking === '' ? {} : { reasoning_content: thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}
