import type { AssistantMessage, ChatMessage } from '../wire/chat-completion.ts'
import { hasWholeThinking, isEchoOf, toWireAssistant, turnKey } from './assistant-turn.ts'
import { isAsIn, snapshotOf, type JsonSnapshot } from './json-snapshot.ts'

/** One message at one place of a conversation. */
export interface MessageNode {
  readonly parent: MessageNode | undefined
  /** The message as it goes over the wire. */
  readonly json: string
  /** The message as it was last given at this place; undefined when it was not, or is no plain data. */
  given?: JsonSnapshot
  /** What the policy wrote, where this node is its answer. */
  said?: AssistantMessage
  /** Whether ids of its tool calls were made up here: whoever else reads the answer has other ones. */
  hasOwnIds?: boolean
  /** What was said next, by its JSON; undefined as long as there is one child at most, the latest. */
  children?: Map<string, MessageNode>
  /** The child that the latest path goes through. */
  latest: MessageNode | undefined
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
  readonly root: MessageNode = {
    parent: undefined,
    json: '',
    latest: undefined,
  }
  readonly #turns = new Map<string, MessageNode[]>()

  /** The path of a request. Its last node is the one the answer will follow. */
  path(messages: readonly ChatMessage[]): MessageNode[] {
    let node = this.root
    return messages.map((message) => {
      const { latest } = node
      // A long conversation is nearly all of this: what was given with the last request.
      if (latest?.given !== undefined && isAsIn(latest.given, message)) {
        node = latest
        return node
      }
      node = message.role === 'assistant' ? this.#assistant(node, message) : child(node, message)
      node.given = snapshotOf(message)
      return node
    })
  }

  /** Adds the policy's answer behind the last message of its request. */
  answer(parent: MessageNode, said: AssistantMessage, hasOwnIds = false): MessageNode {
    const node = child(parent, toWireAssistant(said))
    node.said ??= said
    if (hasOwnIds) node.hasOwnIds = true
    const key = turnKey(said)
    const turns = this.#turns.get(key)
    if (turns === undefined) this.#turns.set(key, [node])
    else if (!turns.includes(node)) turns.push(node)
    return node
  }

  #assistant(parent: MessageNode, message: ChatMessage): MessageNode {
    let inPlace: MessageNode | undefined
    let moved: MessageNode | undefined
    for (const node of this.#turns.get(turnKey(message)) ?? []) {
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
  const node: MessageNode = { parent, json, latest: undefined }
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
