import { isDeepStrictEqual } from 'node:util'

import {
  asWritten,
  isEchoOf,
  isWholeEcho,
  toWireAssistant,
  turnKey,
  visibleText,
} from './assistant-turn.ts'
import type { CallAliases } from './call-aliases.ts'
import type { AssistantMessage, ChatMessage, ChatToolCall } from './chat-completion.ts'

/** A copy of a plain JSON value that shares its strings. */
type JsonSnapshot =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly JsonSnapshot[]
  | { readonly [key: string]: JsonSnapshot }

/** Undefined for a value that is not plain data. */
function snapshotOf(value: unknown): JsonSnapshot {
  if (typeof value === 'bigint' || typeof value === 'function' || typeof value === 'symbol')
    return undefined
  if (typeof value !== 'object' || value === null) return value as JsonSnapshot
  if (!isList(value) && !isPlain(value)) return undefined
  // Spread preserves the shape of an object, which saves memory.
  const copy = (isList(value) ? [...value] : { ...value }) as Record<string, JsonSnapshot>
  for (const key of Object.keys(copy)) {
    const item = copy[key]
    const taken = snapshotOf(item)
    if (taken === undefined && item !== undefined) return undefined
    if (taken !== item) copy[key] = taken
  }
  return copy
}

/**
 * Whether the JSON of `value` is that of the snapshot; false when unsure. Much cheaper than writing the JSON:
 * strings that a program passes on are the same object in memory, and need not be compared.
 */
function isAsIn(snapshot: JsonSnapshot, value: unknown): boolean {
  if (typeof snapshot !== 'object' || snapshot === null) return snapshot === value
  if (typeof value !== 'object' || value === null) return false
  // Loops, because a whole conversation is compared with each call.
  if (isList(snapshot)) {
    if (!isList(value) || value.length !== snapshot.length) return false
    for (let n = 0; n < snapshot.length; n += 1) if (!isAsIn(snapshot[n], value[n])) return false
    return true
  }
  if (!isPlain(value)) return false
  const keys = Object.keys(snapshot)
  const own = Object.keys(value)
  if (own.length !== keys.length) return false
  for (const [n, key] of keys.entries()) {
    if (own[n] !== key || !isAsIn(snapshot[key], (value as Record<string, unknown>)[key])) {
      return false
    }
  }
  return true
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const noMessages: readonly AssistantMessage[] = []
const noNodes: readonly MessageNode[] = []

/** One message of a conversation, with its history as the parents. */
export class MessageNode {
  readonly parent: MessageNode | undefined
  /** The message as it goes over the wire. */
  readonly json: string
  /** Number of messages up to this one. */
  readonly depth: number
  /** The message as the latest request had it; undefined for an answer and for data that is not plain. */
  received: JsonSnapshot = undefined
  /** The policy's message, if this node is its answer. */
  answer: AssistantMessage | undefined = undefined
  /**
   * The answer as the agent got it, with other ids and names where those of the policy would harm it. Several, when
   * the policy gave the same answer to the same request again; none in other nodes.
   */
  shown: readonly AssistantMessage[] = noMessages
  /** Where the answer was given, if a rewritten history moved it here. */
  copyOf: MessageNode | undefined = undefined
  /** Whether ids of its tool calls were generated here: other readers of the answer have other ids. */
  hasOwnIds = false
  /** Other answers in this place that go over the wire as this one, such as with other malformed arguments. */
  alike: readonly MessageNode[] = noNodes
  /** Whether a call ended here that no later call continued. */
  isTip = false
  /** The next messages by their JSON; undefined while there is at most one, `latest`. */
  children: Map<string, MessageNode> | undefined = undefined
  /** The child on the latest path. */
  latest: MessageNode | undefined = undefined

  constructor(parent: MessageNode | undefined, json: string) {
    this.parent = parent
    this.json = json
    this.depth = parent === undefined ? 0 : parent.depth + 1
  }
}

/** What an agent has of an answer. */
export interface AnswerOfAgent {
  /** The message; default: the policy's. */
  readonly shown?: AssistantMessage | undefined
  /** Whether the policy gave tool calls no ids, and the agent's are not known here. */
  readonly hasOwnIds?: boolean
}

/** A request in the tree. */
interface FollowedRequest {
  /** Its last message. */
  readonly end: MessageNode
  /** How many messages at its start an earlier request or answer had in this place. */
  readonly known: number
}

/**
 * All messages under one sample id, each stored once. A request is a path from the root, so a conversation that
 * grows by two messages per call costs two nodes per call.
 *
 * The tree also records what the policy wrote. Frameworks re-serialise an answer when they send it back (`1.0`
 * becomes `1`, spaces vanish, thinking is dropped). A message that echoes an answer is sent as the policy wrote it, and
 * a call of the rollout's prompt with the arguments that it has there.
 */
export class ConversationTree {
  readonly #root = new MessageNode(undefined, '')
  /** The answers of the policy, in their order. */
  readonly #answers: MessageNode[] = []
  /** The first `#indexed` answers by their keys. */
  #index: Map<string, Set<MessageNode>> | undefined
  #indexed = 0
  readonly #aliases: CallAliases
  readonly #prompt: readonly ChatMessage[]

  /** @param prompt - of the rollout, in chat completions form */
  constructor(aliases: CallAliases, prompt: readonly object[] = []) {
    this.#aliases = aliases
    this.#prompt = prompt as readonly ChatMessage[]
  }

  /** Adds the messages of a request. */
  follow(messages: readonly ChatMessage[]): FollowedRequest {
    let end = this.#root
    let known = 0
    for (const message of inOrderOfCalls(messages)) {
      const { latest } = end
      // The usual case: the previous request had the same message.
      if (latest?.received !== undefined && isAsIn(latest.received, message)) {
        end = latest
        known = end.depth
        continue
      }
      end =
        message.role === 'assistant'
          ? this.#assistant(end, message)
          : child(end, this.#aliases.toPolicy(message))
      const isKnown =
        end.received !== undefined || (end.answer !== undefined && end.copyOf === undefined)
      if (isKnown) known = end.depth
      end.received = snapshotOf(message)
    }
    return { end, known }
  }

  /** Adds the policy's answer after the last message of its request. */
  answer(
    parent: MessageNode,
    answer: AssistantMessage,
    { shown = answer, hasOwnIds = false }: AnswerOfAgent = {},
  ): MessageNode {
    const node = answerNode(parent, answer)
    node.answer ??= answer
    if (!node.shown.includes(shown)) node.shown = [...node.shown, shown]
    node.copyOf = undefined
    if (hasOwnIds) node.hasOwnIds = true
    this.#answers.push(node)
    return node
  }

  #assistant(parent: MessageNode, message: ChatMessage): MessageNode {
    const { latest, children } = parent
    // The usual case: the only answer after this parent.
    if (latest !== undefined && children === undefined) {
      for (const shown of latest.shown) {
        if (isEchoOf(shown, message) && isWholeEcho(shown, message)) return latest
      }
    }
    let inPlace: MessageNode | undefined
    let moved: MessageNode | undefined
    for (const node of this.#answersLike(message)) {
      for (const shown of node.shown) {
        if (!isEchoOf(shown, message) && !isEchoWithoutRepetition(shown, message, parent)) continue
        // Among equal answers, the one that was given to the same message.
        if (moved?.parent?.json !== parent.json || node.parent?.json === parent.json) moved = node
        if (node.parent !== parent) continue
        if (isWholeEcho(shown, message)) return node
        inPlace ??= node
      }
    }
    if (inPlace) return inPlace
    for (const node of childrenOf(parent)) {
      if (node.hasOwnIds && node.answer && isEchoOf(node.answer, message, false)) return node
    }
    if (moved === undefined) {
      for (const id of idsOf(message)) if (id !== undefined) this.#aliases.use(id)
      const written = asWritten(message, this.#prompt)
      return child(parent, toWireAssistant(this.#aliases.toPolicy(written)))
    }
    // The history before the answer was cut or rewritten.
    const node = childOf(parent, moved.json)
    if (node.answer === undefined) {
      node.answer = moved.answer
      node.shown = moved.shown
      node.copyOf = moved
    }
    return node
  }

  #answersLike(message: ChatMessage): Iterable<MessageNode> {
    const index = (this.#index ??= new Map<string, Set<MessageNode>>())
    for (const node of this.#answers.slice(this.#indexed)) {
      for (const shown of node.shown) {
        const key = turnKey(shown)
        const known = index.get(key)
        if (known === undefined) index.set(key, new Set([node]))
        else known.add(node)
      }
    }
    this.#indexed = this.#answers.length
    return index.get(turnKey(message)) ?? []
  }
}

/**
 * Whether `echo` is `answer` without its text, which was said before in the same turn of the conversation: Mastra
 * keeps such a text once.
 */
function isEchoWithoutRepetition(
  answer: AssistantMessage,
  echo: ChatMessage,
  parent: MessageNode,
): boolean {
  if (visibleText(echo) !== '') return false
  const { content, refusal = null } = answer
  return (
    isEchoOf(answer, { ...echo, content, refusal }) && wasSaidInTurn(visibleText(answer), parent)
  )
}

function wasSaidInTurn(text: string | undefined, end: MessageNode): boolean {
  for (let at = end; at.parent !== undefined; at = at.parent) {
    const message = at.answer ?? (JSON.parse(at.json) as ChatMessage)
    if (message.role === 'user') return false
    if (message.role === 'assistant' && visibleText(message) === text) return true
  }
  return false
}

/**
 * The messages, with the results of each turn's tool calls in the order of the calls: some frameworks put results of
 * unknown tools last, and a chat template without ids would give a call the result of another.
 */
function inOrderOfCalls(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  let ordered: ChatMessage[] | undefined
  for (const [at, message] of messages.entries()) {
    const ids = idsOf(message)
    if (message.role !== 'assistant' || ids.length < 2) continue
    const places = new Map(ids.map((id, place) => [id, place]))
    let end = at + 1
    while (messages[end]?.role === 'tool') end += 1
    const results = messages.slice(at + 1, end)
    const placeOf = ({ tool_call_id: id = '' }: ChatMessage): number => places.get(id) ?? ids.length
    const isOrdered = results.every(
      (result, n) => n === 0 || placeOf(results[n - 1] as ChatMessage) <= placeOf(result),
    )
    // Calls of one id cannot be told apart.
    if (isOrdered || places.size < ids.length) continue
    ordered ??= [...messages]
    ordered.splice(at + 1, results.length, ...results.toSorted((a, b) => placeOf(a) - placeOf(b)))
  }
  return ordered ?? messages
}

/** The ids of the tool calls of a message, which may have anything in their place. */
function idsOf({ tool_calls: calls }: ChatMessage): (string | undefined)[] {
  return Array.isArray(calls) ? calls.map((call: ChatToolCall | null) => call?.id) : []
}

/** The conversation from its start to `node`. */
export function pathTo(node: MessageNode): MessageNode[] {
  const path: MessageNode[] = []
  for (let at = node; at.parent !== undefined; at = at.parent) path.push(at)
  return path.toReversed()
}

/** The messages from the start of the conversation to `node`, as the policy wrote them. */
export function messagesUpTo(node: MessageNode): ChatMessage[] {
  return pathTo(node).map(({ answer, json }) => answer ?? (JSON.parse(json) as ChatMessage))
}

/** The messages at the start of a conversation that instruct the model. */
export function instructionsOf(path: readonly MessageNode[]): readonly MessageNode[] {
  const start = path.findIndex((node) => !isInstruction(node))
  return start < 0 ? path : path.slice(0, start)
}

function isInstruction({ answer, json }: MessageNode): boolean {
  if (answer !== undefined) return false
  const { role } = JSON.parse(json) as ChatMessage
  return role === 'system' || role === 'developer'
}

/**
 * Whether a request continues a conversation of the sample under other instructions, as an agent does that another
 * one hands over to.
 */
export function hasOtherInstructions(path: readonly MessageNode[]): boolean {
  const last = path.findLast(({ copyOf }) => copyOf !== undefined)
  if (last?.copyOf === undefined) return false
  const before = withoutInstructions(pathTo(last.copyOf))
  const now = withoutInstructions(path.slice(0, last.depth))
  return before.length === now.length && before.every(({ json }, at) => json === now[at]?.json)
}

function withoutInstructions(path: readonly MessageNode[]): readonly MessageNode[] {
  return path.slice(instructionsOf(path).length)
}

/** The node of an answer, which need not be the only one with its JSON. */
function answerNode(parent: MessageNode, answer: AssistantMessage): MessageNode {
  const first = child(parent, toWireAssistant(answer))
  if (first.answer === undefined) return first
  const known = [first, ...first.alike].find((one) => isDeepStrictEqual(one.answer, answer))
  if (known !== undefined) return known
  const node = new MessageNode(parent, first.json)
  first.alike = [...first.alike, node]
  return node
}

function child(parent: MessageNode, message: ChatMessage): MessageNode {
  return childOf(parent, JSON.stringify(message))
}

function childOf(parent: MessageNode, json: string): MessageNode {
  // The usual case. Comparing two strings is several times cheaper than hashing one.
  const { latest } = parent
  if (latest !== undefined && latest.json === json) return latest
  const known = parent.children?.get(json)
  if (known) {
    parent.latest = known
    return known
  }
  const node = new MessageNode(parent, json)
  // Most messages have one successor only: no map is needed.
  if (latest !== undefined) {
    parent.children ??= new Map([[latest.json, latest]])
    parent.children.set(json, node)
  }
  parent.latest = node
  return node
}

function childrenOf({ children, latest }: MessageNode): Iterable<MessageNode> {
  return children?.values() ?? (latest === undefined ? [] : [latest])
}
