import { hasWholeThinking, isEchoOf, toWireAssistant, turnKey } from './assistant-turn.ts'
import type { AssistantMessage, ChatMessage } from './chat-completion.ts'

/** What a plain JSON value was at one time, whatever becomes of it: a copy that shares its texts. */
type JsonSnapshot =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly JsonSnapshot[]
  | { readonly [key: string]: JsonSnapshot }

const notPlain = Symbol('has a JSON form of its own, or none')

/** Takes a snapshot; undefined of what is not plain data. */
function snapshotOf(value: object): JsonSnapshot {
  const taken = take(value)
  return taken === notPlain ? undefined : taken
}

/**
 * Whether the JSON of `value` is known to be that of the time of the snapshot. Much cheaper than
 * writing it: texts that a program passes on are the same object in memory, and are not read.
 */
function isAsIn(snapshot: JsonSnapshot, value: unknown): boolean {
  if (typeof snapshot !== 'object' || snapshot === null) return snapshot === value
  if (typeof value !== 'object' || value === null) return false
  // Loops, because all of a long conversation goes through here with each call.
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

function take(value: unknown): JsonSnapshot | typeof notPlain {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'undefined':
      return value
    case 'object':
      if (value === null) return null
      return isList(value) ? takeList(value) : takeRecord(value)
    case 'bigint':
    case 'function':
    case 'symbol':
      return notPlain
  }
}

function takeList(list: readonly unknown[]): JsonSnapshot | typeof notPlain {
  const items: JsonSnapshot[] = []
  for (const item of list) {
    const taken = take(item)
    if (taken === notPlain) return notPlain
    items.push(taken)
  }
  return items
}

function takeRecord(record: object): JsonSnapshot | typeof notPlain {
  if (!isPlain(record)) return notPlain
  // One object of the same shape, for as long as the rollout lives.
  const copy = { ...record } as Record<string, JsonSnapshot>
  for (const key of Object.keys(copy)) {
    const value = copy[key]
    const taken = take(value)
    if (taken === notPlain) return notPlain
    if (taken !== value) copy[key] = taken
  }
  return copy
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** One message at one place of a conversation. */
export class MessageNode {
  readonly parent: MessageNode | undefined
  /** The message as it goes over the wire. */
  readonly json: string
  /** How many messages the conversation has up to this one. */
  readonly depth: number
  /** The message as it was last given at this place; undefined when it was not, or is no plain data. */
  given: JsonSnapshot = undefined
  /** What the policy wrote, where this node is its answer. */
  said: AssistantMessage | undefined = undefined
  /** Whether ids of its tool calls were made up here: whoever else reads the answer has other ones. */
  hasOwnIds = false
  /** Whether a call ended here that no later one has continued yet. */
  isTip = false
  /** What was said next, by its JSON; undefined as long as there is one child at most, the latest. */
  children: Map<string, MessageNode> | undefined = undefined
  /** The child that the latest path goes through. */
  latest: MessageNode | undefined = undefined

  constructor(parent: MessageNode | undefined, json: string) {
    this.parent = parent
    this.json = json
    this.depth = parent === undefined ? 0 : parent.depth + 1
  }
}

/**
 * Everything that was said under one sample id, each message kept once: every request is a path
 * from the root, so a conversation that grows by two messages per call costs two nodes per call.
 *
 * The tree is also the memory of what the policy wrote. Frameworks re-serialise a turn when they
 * send it back (`1.0` becomes `1`, spaces vanish, thinking is dropped); a message that is an echo
 * of a turn the policy wrote at this place goes out in the policy's own words.
 */
export class ConversationTree {
  readonly #root = new MessageNode(undefined, '')
  /** What the policy wrote, in its order. */
  readonly #answers: MessageNode[] = []
  /** The same by their keys, those that were there when one was last looked for. */
  #turns: Map<string, Set<MessageNode>> | undefined
  #indexed = 0

  /** The place of the last message of a request, which the answer will follow. */
  follow(messages: readonly ChatMessage[]): MessageNode {
    let node = this.#root
    for (const message of messages) {
      const { latest } = node
      // A long conversation is nearly all of this: what was given with the last request.
      if (latest?.given !== undefined && isAsIn(latest.given, message)) {
        node = latest
        continue
      }
      node = message.role === 'assistant' ? this.#assistant(node, message) : child(node, message)
      node.given = snapshotOf(message)
    }
    return node
  }

  /** Adds the policy's answer behind the last message of its request. */
  answer(parent: MessageNode, said: AssistantMessage, hasOwnIds = false): MessageNode {
    const node = child(parent, toWireAssistant(said))
    node.said ??= said
    if (hasOwnIds) node.hasOwnIds = true
    this.#answers.push(node)
    return node
  }

  #assistant(parent: MessageNode, message: ChatMessage): MessageNode {
    const { latest, children } = parent
    // Nearly always what the policy answered here, and the only thing that was said here.
    if (latest?.said !== undefined && children === undefined) {
      if (isEchoOf(latest.said, message) && hasWholeThinking(latest.said, message)) return latest
    }
    let inPlace: MessageNode | undefined
    let moved: MessageNode | undefined
    for (const node of this.#answersLike(message)) {
      const { said } = node
      if (said === undefined || !isEchoOf(said, message)) continue
      moved = node
      if (node.parent !== parent) continue
      if (hasWholeThinking(said, message)) return node
      inPlace ??= node
    }
    if (inPlace) return inPlace
    for (const node of childrenOf(parent)) {
      if (node.hasOwnIds && node.said && isEchoOf(node.said, message, false)) return node
    }
    // The history was cut or rewritten: still the policy's words, at another place.
    if (moved === undefined) return child(parent, toWireAssistant(message))
    const node = childOf(parent, moved.json)
    if (moved.said) node.said ??= moved.said
    return node
  }

  #answersLike(message: ChatMessage): Iterable<MessageNode> {
    const turns = (this.#turns ??= new Map<string, Set<MessageNode>>())
    for (const node of this.#answers.slice(this.#indexed)) {
      if (node.said === undefined) continue
      const key = turnKey(node.said)
      const known = turns.get(key)
      if (known === undefined) turns.set(key, new Set([node]))
      else known.add(node)
    }
    this.#indexed = this.#answers.length
    return turns.get(turnKey(message)) ?? []
  }
}

/** The conversation from its start to `node`. */
export function pathTo(node: MessageNode): MessageNode[] {
  const path: MessageNode[] = []
  for (let at = node; at.parent !== undefined; at = at.parent) path.push(at)
  return path.toReversed()
}

/** The messages from the start of the conversation to `node`, as the policy wrote them. */
export function messagesUpTo(node: MessageNode): ChatMessage[] {
  return pathTo(node).map(({ said, json }) => said ?? (JSON.parse(json) as ChatMessage))
}

function child(parent: MessageNode, message: ChatMessage): MessageNode {
  return childOf(parent, JSON.stringify(message))
}

function childOf(parent: MessageNode, json: string): MessageNode {
  // Nearly always the one that the last request went through. Comparing two texts is several times
  // cheaper than hashing one, and a long conversation is all of this.
  const { latest } = parent
  if (latest !== undefined && latest.json === json) return latest
  const known = parent.children?.get(json)
  if (known) {
    parent.latest = known
    return known
  }
  const node = new MessageNode(parent, json)
  // Most messages are followed by one and the same: a map of one would hash it for nothing.
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
