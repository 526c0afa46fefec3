import { randomUUID } from 'node:crypto'

import type { ChatToolCall, ChatToolCallDelta } from './chat-completion.ts'
import { asObject, asText } from './answer-shapes.ts'

interface StreamedToolCall {
  readonly index: number | undefined
  readonly call: ChatToolCall
  /** The first id that the server gave it; not the call's own where it came late. */
  serverId: string | undefined
}

/**
 * Puts the tool calls of one streamed answer together. They need an id, because their results point
 * to it; one that comes without gets it here, in the delta itself: the chunk is handed out after
 * that, so all who read it know the call by the same id.
 */
export class StreamedToolCalls {
  readonly #entries: StreamedToolCall[] = []

  /** New objects each time. */
  get toolCalls(): ChatToolCall[] {
    return this.#entries.map(({ call }) => ({ ...call, function: { ...call.function } }))
  }

  /** Whether one of them came without an id so far. */
  get hasOwnIds(): boolean {
    return this.#entries.some(({ serverId }) => serverId === undefined)
  }

  /** Takes the list of one chunk. */
  add(deltas: readonly ChatToolCallDelta[]): void {
    const named = new Set<StreamedToolCall>()
    for (const delta of deltas) this.#addDelta(delta, named)
  }

  /** `named` are the calls that the same list has named already: it names each only once. */
  #addDelta(delta: ChatToolCallDelta, named: Set<StreamedToolCall>): void {
    assertShape(delta)
    const name = delta.function?.name
    const known = this.#latestCall(delta)
    const begins = !known || (name && named.has(known)) || isAnotherCall(known, delta)
    const entry = begins ? this.#beginCall(delta) : known
    if (name) named.add(entry)

    const { call } = entry
    entry.serverId ??= delta.id || undefined
    // The id that readers saw first stays: one that comes late or changes would be a second one.
    if ((begins || delta.id) && delta.id !== call.id) delta.id = call.id
    // Some servers repeat id and name in every delta, so they are taken once and not appended.
    call.function.name ||= name ?? ''
    const text: unknown = delta.function?.arguments
    if (typeof text === 'string') call.function.arguments += text
    else if (text !== undefined && text !== null) call.function.arguments += JSON.stringify(text)
  }

  /** The call that `delta` continues, unless it begins another. */
  #latestCall(delta: ChatToolCallDelta): StreamedToolCall | undefined {
    const calls = isNumbered(delta)
      ? this.#entries.filter(({ index }) => index === delta.index)
      : this.#entries
    return calls.findLast(({ serverId }) => serverId && serverId === delta.id) ?? calls.at(-1)
  }

  #beginCall({ index, id }: ChatToolCallDelta): StreamedToolCall {
    const call: ChatToolCall = {
      id: id || `call_${randomUUID().replaceAll('-', '')}`,
      type: 'function',
      function: { name: '', arguments: '' },
    }
    const entry = { index, call, serverId: undefined }
    this.#entries.push(entry)
    return entry
  }
}

/** Arguments as an object are those of servers that parse what the policy wrote. */
function assertShape({ index, id, function: called }: ChatToolCallDelta): void {
  const isPlace = index === undefined || index === null || (Number.isInteger(index) && index >= 0)
  if (!isPlace) throw new TypeError('expected the index of a tool call')
  asText(id)
  if (called === undefined || called === null) return
  asText(asObject(called).name)
  const text: unknown = called.arguments
  if (typeof text !== 'object') asText(text)
}

/**
 * Whether `delta` begins a call behind the `known` one of the same index: some servers number every
 * call 0 or none at all, others change the id within a call. Only a delta with a name begins one.
 */
function isAnotherCall({ call, serverId }: StreamedToolCall, delta: ChatToolCallDelta): boolean {
  const known = call.function
  const name = delta.function?.name
  if (!name || !known.name) return false
  if (delta.id && serverId) return delta.id !== serverId
  if (name !== known.name) return true
  // The name again: repeated, perhaps with an id that comes late, or a second call of the tool.
  return (Boolean(delta.id) || !isNumbered(delta)) && isJson(known.arguments)
}

function isNumbered({ index }: ChatToolCallDelta): boolean {
  return typeof index === 'number'
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
