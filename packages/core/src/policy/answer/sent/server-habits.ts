import type { ChatCompletionChunk, ChatDelta } from '../../chat-completion.ts'
import { brokenAnswer, quoted } from './broken-answer.ts'
import {
  areChoices,
  isOrdinary,
  isParsed,
  knownFields,
  saysSomething,
  texts,
} from './chunk-shape.ts'
import { assertEndedWell, assertNoFailure } from './reported-failures.ts'
import { type SentEvent, isPing } from './sent-events.ts'

type Chunk = ChatCompletionChunk
type Choice = Chunk['choices'][number]

/** What a server has sent so far of one answer, as far as it matters for what it sends next, or for what it did not send. */
export class SentSoFar {
  hasRole = false
  /** Whether a delta, and not a whole message, has said something. */
  hasDeltas = false
  /** The first data beside the answer. */
  beside: object | undefined
  /** Whether a delta had something that is read. */
  isReadable = false
  /** The first choice that had nothing that is read. */
  unreadable: Choice | undefined

  /** Whether what comes next can change nothing here. */
  get hasBegun(): boolean {
    return this.hasDeltas && this.isReadable
  }

  note(choice: Choice): void {
    if (this.hasBegun) return
    const said = choice.delta ?? (choice['message'] as ChatDelta | null | undefined)
    if (said) this.hasRole = true
    if (choice.delta) this.hasDeltas ||= saysSomething(choice.delta)
    if (this.isReadable) return
    const keys = Object.keys(said ?? {})
    this.isReadable = keys.some((key) => key !== 'role' && knownFields.has(key))
    if (!said || keys.some((key) => !knownFields.has(key) && said[key] !== null))
      this.unreadable ??= choice
  }

  /**
   * An answer in fields of another API must not become an empty text.
   *
   * @throws OsmosisError with code `policy_stream_error` when there was no answer in what was sent
   */
  assertAnswered(): void {
    if (this.isReadable || (this.hasRole && this.unreadable === undefined)) return
    if (this.unreadable === undefined) {
      const only = this.beside ? `, only ${quoted(this.beside)}` : ''
      throw brokenAnswer(`The policy sent no choices${only}: its answer is empty.`)
    }
    throw brokenAnswer(
      `The policy sent an answer that cannot be read: ${quoted({ choices: [this.unreadable] })} has none of ${[...texts, 'tool_calls'].join(', ')} in delta or message.`,
    )
  }
}

/** In what servers differ from chat completions as OpenAI streams them. */
interface Habit {
  readonly name: string
  /** Where it was seen. */
  readonly seen: string
  /**
   * The chunk as a server without the habit sends it: the same object if that is so, undefined for none. Throws for what is no
   * answer. `event`: its name.
   */
  readonly ofChunk?: (chunk: Chunk, event: string | undefined) => Chunk | undefined
  /** The same of the choice that is read. */
  readonly ofChoice?: (choice: Choice, sent: SentSoFar) => Choice
}

/** Applied in this order. */
export const serverHabits: readonly Habit[] = [
  {
    name: 'pings are data',
    seen: 'gateways that pass on the events of Anthropic, which has events of the type ping',
    ofChunk: (chunk) => (keepsAlive(chunk) ? undefined : chunk),
  },
  {
    name: 'failures are data',
    seen: 'vLLM, SGLang, OpenRouter, Groq, MiniMax, Bedrock and gateways, whose status has been sent',
    ofChunk: (chunk, event) => {
      assertNoFailure(chunk, event)
      return chunk
    },
  },
  {
    name: 'data beside the answer',
    seen: 'gateways that send metadata, citations or timings in events of their own',
    ofChunk: (chunk) => (isPartOfAnswer(chunk) ? chunk : undefined),
  },
  {
    name: 'usage without choices',
    seen: 'gateways that leave out the empty list beside the usage',
    // Clients expect a list.
    ofChunk: (chunk) => (chunk.choices ? chunk : { ...chunk, choices: [] }),
  },
  {
    name: 'failures are finish reasons',
    seen: 'SGLang and vLLM when weights are updated, DeepSeek without resources, gateways',
    ofChoice: (choice) => {
      if (choice.finish_reason) assertEndedWell(choice.finish_reason)
      return choice
    },
  },
  {
    name: 'whole messages',
    seen: 'llama.cpp and vLLM without streaming; gateways that stream messages, or one behind its deltas',
    ofChoice: (choice, { hasDeltas }) => {
      if (!choice['message']) return choice
      const { message, ...others } = choice
      return { ...others, delta: choice.delta ?? (hasDeltas ? {} : numbered(message as ChatDelta)) }
    },
  },
  {
    name: 'calls of the old form',
    seen: 'servers from before tool_calls',
    ofChoice: (choice) => {
      if (!choice.delta?.['function_call']) return choice
      throw brokenAnswer(
        'The policy sent function_call, the form of tool calls before tool_calls: have its server send tool_calls.',
      )
    },
  },
  {
    name: 'nulls in deltas',
    seen: 'llama.cpp and vLLM, whose content is null beside calls',
    // Readers of streams fail over nulls, and do not need them.
    ofChoice: (choice) => (hasNulls(choice.delta) ? withDelta(choice, withoutNulls) : choice),
  },
  {
    name: 'no role',
    seen: 'gateways that stream texts only',
    // Clients of OpenAI fail over a message without a role.
    ofChoice: (choice, { hasRole }) =>
      hasRole || choice.delta?.role
        ? choice
        : withDelta(choice, (delta) => ({ role: 'assistant', ...delta })),
  },
  {
    name: 'parsed arguments',
    seen: 'servers that parse what the policy wrote, as Ollama does',
    ofChoice: (choice) =>
      choice.delta?.tool_calls?.some(isParsed) ? withDelta(choice, withTextArguments) : choice,
  },
]

const habitsOfChunks = serverHabits.flatMap(({ ofChunk = [] }) => ofChunk)
const habitsOfChoices = serverHabits.flatMap(({ ofChoice = [] }) => ofChoice)

/** A chunk in the form that the rest of the code knows. */
export interface SentChunk {
  readonly chunk: Chunk
  /** What is read of it, in the place of the first of its choices. */
  readonly choice: Choice | undefined
}

/**
 * What an event says of an answer, in the one form that the rest of the code knows; undefined for nothing.
 *
 * @throws OsmosisError with code `policy_stream_error` for the report of a failure, and for what cannot be read
 */
export function normalise({ name, value }: SentEvent, sent: SentSoFar): SentChunk | undefined {
  let chunk = value as Chunk
  if (sent.hasBegun && name !== 'error' && isOrdinary(chunk))
    return { chunk, choice: chunk.choices[0] }
  for (const habit of habitsOfChunks) {
    const read = habit(chunk, name)
    if (read === undefined) {
      sent.beside ??= chunk
      return undefined
    }
    chunk = read
  }
  if (!areChoices(chunk.choices))
    throw brokenAnswer(`The policy sent a chunk that cannot be read: ${quoted(value)}`)
  const first = chunk.choices.find(({ index }) => (index ?? 0) === 0)
  if (first === undefined) return { chunk, choice: first }
  let choice = first
  for (const habit of habitsOfChoices) choice = habit(choice, sent)
  sent.note(first)
  return { chunk, choice }
}

function keepsAlive(data: Chunk): boolean {
  if (data.choices !== undefined) return false
  const { type } = data
  return (typeof type === 'string' && isPing(type)) || Object.keys(data).length === 0
}

function isPartOfAnswer({ choices, usage, object }: Chunk): boolean {
  // A list, or something in its place, that cannot be read.
  return (
    Boolean(usage) || (choices ?? undefined) !== undefined || object === 'chat.completion.chunk'
  )
}

/** The delta of a whole message: its tool calls are numbered by their places. */
function numbered(message: ChatDelta): ChatDelta {
  const { tool_calls: calls } = message
  if (!calls) return message
  return { ...message, tool_calls: calls.map((call, index) => ({ index, ...call })) }
}

function withDelta(choice: Choice, change: (delta: ChatDelta) => ChatDelta): Choice {
  return choice.delta ? { ...choice, delta: change(choice.delta) } : choice
}

function hasNulls(delta: ChatDelta | undefined): boolean {
  for (const key in delta) if ((delta[key] ?? undefined) === undefined) return true
  return false
}

function withoutNulls(delta: ChatDelta): ChatDelta {
  const said = Object.entries(delta).filter(([, value]) => (value ?? undefined) !== undefined)
  return Object.fromEntries(said)
}

function withTextArguments(delta: ChatDelta): ChatDelta {
  const calls = delta.tool_calls?.map((call) =>
    isParsed(call)
      ? {
          ...call,
          function: { ...call.function, arguments: JSON.stringify(call.function?.arguments) },
        }
      : call,
  )
  return calls ? { ...delta, tool_calls: calls } : delta
}
