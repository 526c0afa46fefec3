import { randomUUID } from 'node:crypto'

import { hasFunction } from './assistant-turn.ts'
import type { ChatMessage } from './chat-completion.ts'

/** Servers, tools and frameworks agree on such names. */
const plainName = /^[\w-]{1,64}$/

/**
 * Ids and names under which the agent of a sample knows tool calls, where those that the policy gave would harm it:
 * an id that the sample has used (some servers number the calls of each turn from 0) would mix up results, and a name that
 * the agent did not offer may be refused, or be a key of every object. The policy gets its own back.
 */
export class CallAliases {
  // Made when they are needed, because one object of this class lives as long as its rollout.
  #used: Set<string> | undefined
  /** The ids of the policy by those of the agent, where they differ. */
  #ids: Map<string, string> | undefined
  /** The names of the policy by those of the agent, where they differ. */
  #names: Map<string, string> | undefined
  /** The names of the agent by those of the policy, where they differ. */
  #aliases: Map<string, string> | undefined

  /** The id for the agent of an answer to which the server gave this id: frameworks put messages of one id together. */
  answerIdFor(serverId: string): string {
    const key = `answer ${serverId}`
    if (serverId === '' || !this.#isUsed(key)) {
      this.use(key)
      return serverId
    }
    return `chatcmpl-${randomUUID()}`
  }

  /** Notes an id that the agent brought along, e.g. in an example at the start of a conversation. */
  use(id: string): void {
    this.#used ??= new Set()
    this.#used.add(id)
  }

  #isUsed(id: string): boolean {
    return this.#used?.has(id) ?? false
  }

  /** The id for the agent of a call to which the server gave this id, or none. */
  idFor(serverId: string | undefined): string {
    if (serverId !== undefined && !this.#isUsed(serverId)) {
      this.use(serverId)
      return serverId
    }
    const id = `call_${randomUUID().replaceAll('-', '')}`
    if (serverId !== undefined) this.noteId(id, serverId)
    this.use(id)
    return id
  }

  /** Notes the id of the policy for a call that the agent knows by another one. */
  noteId(id: string, serverId: string): void {
    this.#ids ??= new Map()
    this.#ids.set(id, serverId)
  }

  /** The name for the agent of a tool that the policy called. `offered`: the names that the request offered. */
  nameFor(name: string, offered: ReadonlySet<string>): string {
    const isHarmless = !(name in Object.prototype)
    if (isHarmless && (offered.has(name) || plainName.test(name))) return name
    this.#names ??= new Map()
    this.#aliases ??= new Map()
    const known = this.#aliases.get(name)
    if (known !== undefined) return known
    let alias: string
    let number = this.#names.size
    do alias = `unknown_tool_${(number += 1)}`
    while (offered.has(alias) || this.#names.has(alias))
    this.#names.set(alias, name)
    this.#aliases.set(name, alias)
    return alias
  }

  /** A message of the agent with the policy's ids and names. */
  toPolicy(message: ChatMessage): ChatMessage {
    if (this.#ids === undefined && this.#names === undefined) return message
    const { role, tool_calls: calls } = message
    if (role === 'tool') return this.#resultToPolicy(message)
    if (!Array.isArray(calls) || calls.length === 0) return message
    return {
      ...message,
      tool_calls: calls.map((call) =>
        hasFunction(call)
          ? {
              ...call,
              id: this.#ids?.get(call.id) ?? call.id,
              function: {
                ...call.function,
                name: this.#names?.get(call.function.name) ?? call.function.name,
              },
            }
          : call,
      ),
    }
  }

  #resultToPolicy(message: ChatMessage): ChatMessage {
    const { tool_call_id: id = '', name, content } = message
    const result = { ...message, tool_call_id: this.#ids?.get(id) ?? id }
    if (name !== undefined) result.name = this.#names?.get(name) ?? name
    // What a framework says of a tool that it does not have.
    if (typeof content === 'string') result.content = this.#withNames(content)
    else if (Array.isArray(content)) {
      result.content = content.map((part) =>
        typeof part.text === 'string' ? { ...part, text: this.#withNames(part.text) } : part,
      )
    }
    return result
  }

  #withNames(text: string): string {
    return text.replaceAll(/unknown_tool_\d+/g, (alias) => this.#names?.get(alias) ?? alias)
  }
}
