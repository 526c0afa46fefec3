import {
  blocksOf,
  callsTools,
  type MessageFields,
  isCall,
  isFields,
  isResult,
} from './message-blocks.ts'
import { withoutThinking } from './thinking.ts'

/** Which part of an answer {@link lastAssistantText} reads. */
export interface AnswerTextOptions {
  /**
   * Whether thinking that a server left in the text, as `<think>…</think>`, is a part of it. Default: false; see
   * `withoutThinking` of `@osmosis/core/scores`.
   */
  readonly keepThinking?: boolean
}

/**
 * The text of the last answer in a sample of any framework: strings, chat completions parts, Responses items, AI SDK and
 * Strands blocks, Gemini contents. Turns that only call tools are skipped. The text is '' when the last answer is empty,
 * a refusal or thinking only: what the policy said earlier is not its answer.
 */
export function lastAssistantText(
  sample: {
    readonly messages: readonly unknown[]
    readonly trajectoryMessages?: readonly unknown[] | null
  },
  { keepThinking = false }: AnswerTextOptions = {},
): string {
  const read = (messages: readonly unknown[]): string | undefined =>
    lastText(messages, keepThinking ? textOf : (message) => withoutThinking(textOf(message)))
  // Frameworks leave empty answers out of their messages.
  const sent = sample.trajectoryMessages?.at(-1)
  return sent !== undefined && read([sent]) === '' ? '' : (read(sample.messages) ?? '')
}

/** Undefined when no turn of the policy has an answer. */
function lastText(
  messages: readonly unknown[],
  read: (message: MessageFields) => string,
): string | undefined {
  // Items of Responses follow the message of their turn: thinking and calls.
  let hasThought = false
  let hasCalled = false
  for (const message of messages.toReversed()) {
    if (!isFields(message)) continue
    const { role } = message
    if (role === 'assistant' || role === 'model') {
      const text = read(message)
      if (text !== '' || !(hasCalled || callsTools(message))) return text
      hasThought = hasCalled = false
    } else if (role === undefined && (message['type'] === 'reasoning' || isCall(message))) {
      hasThought = true
      hasCalled ||= isCall(message)
    } else {
      if (hasThought && !hasCalled) return ''
      hasThought = false
      hasCalled = [message, ...blocksOf(message)].some(isResult)
    }
  }
  return undefined
}

/** '' for a refusal. */
function textOf(message: MessageFields): string {
  const { parts, content = parts, refusal } = message
  if (typeof refusal === 'string' && refusal !== '') return ''
  if (typeof content === 'string') return content
  const blocks = blocksOf(message)
  return blocks.some(({ type }) => type === 'refusal') ? '' : blocks.map(blockText).join('')
}

/** The text of one content block of any framework; '' for other blocks. */
function blockText({ type, text, thought }: MessageFields): string {
  // OpenAI and AI SDK mark text blocks by type, Strands (Bedrock) and Gemini by the key alone. Thinking has another
  // type, or is marked.
  const isText = (type === undefined && !thought) || type === 'text' || type === 'output_text'
  return isText && typeof text === 'string' ? text : ''
}
