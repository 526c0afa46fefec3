import { parseJson } from '../../http/json.ts'
import type { ChatToolCall, ChatToolCallDelta } from '../chat-completion.ts'
import type { CallAliases } from '../call-aliases.ts'
import { addFields } from './unknown-fields.ts'

/** A tool call of an answer that is being streamed. */
interface StreamedToolCall {
  /** Its place among the calls of the answer, counted from 0. */
  readonly at: number
  /** As the server numbers it. */
  readonly index: number | undefined
  /** As the policy wrote it, for the record. */
  readonly call: ChatToolCall
  /** The first id that the server gave it. */
  serverId: string | undefined
  /** As the agent knows it; undefined while the agent does not know of it, because its name may continue. */
  shown: ChatToolCall | undefined
}

/**
 * Assembles the tool calls of one streamed answer, for the record as the policy wrote them, and for the agent in
 * one form, whatever the server does: each call has an index of its own, counted from 0, and comes first with an id
 * that is unique in the sample, and with its whole name; then come pieces of arguments, which are text.
 */
export class StreamedToolCalls {
  readonly #entries: StreamedToolCall[] = []
  // An answer may have 100,000 calls, so nothing searches in all of them.
  readonly #latest = new LatestCalls()
  /** How many calls the agent knows: it gets them in their order. */
  #known = 0
  readonly #aliases: CallAliases
  readonly #offered: () => ReadonlySet<string>

  /** @param offered - the names of the tools that the request offered */
  constructor(aliases: CallAliases, offered: () => ReadonlySet<string>) {
    this.#aliases = aliases
    this.#offered = offered
  }

  get size(): number {
    return this.#entries.length
  }

  /** Whether the server gave one of them no id so far. */
  get hasOwnIds(): boolean {
    return this.#entries.some(({ serverId }) => serverId === undefined)
  }

  /** Copies, as the policy wrote them. */
  get recorded(): ChatToolCall[] {
    return this.#entries.map(({ call }) => copyOf(call))
  }

  /** Copies, as the agent knows them. Complete behind `end`. */
  get shown(): ChatToolCall[] {
    return this.#entries.map(({ call, shown }) => copyOf(shown ?? call))
  }

  /**
   * Whether there are calls, and the arguments of each are a JSON object, so that a limit of length cut none of them. The last
   * one needs arguments: without any, the limit may have cut all of them.
   */
  get areWhole(): boolean {
    const latest = this.#entries.at(-1)
    return (
      latest !== undefined &&
      this.#entries.every((entry) => isFull(entry) || (entry !== latest && isBare(entry)))
    )
  }

  /** Adds the list of one chunk. Returns what the agent gets of it. */
  add(deltas: readonly ChatToolCallDelta[]): ChatToolCallDelta[] {
    const shown: ChatToolCallDelta[] = []
    const named = new Set<StreamedToolCall>()
    for (const delta of deltas) this.#addDelta(delta, named, shown)
    return shown
  }

  /**
   * The rest of what the agent gets, to be called when the answer has ended. A call without a name is one of a tool that
   * nobody offered, as any other name that the policy made up.
   *
   * @param isCut - whether the answer ended because it reached the limit of its length
   */
  end(isCut: boolean): ChatToolCallDelta[] {
    const shown: ChatToolCallDelta[] = []
    for (const entry of this.#entries) {
      const isLast = entry === this.#entries.at(-1)
      // Without arguments: a tool without parameters, or one whose arguments were cut off, which must not run.
      const missing = isBare(entry) ? (isCut && isLast ? '{' : '{}') : ''
      if (entry.shown === undefined) this.#showNext(entry, shown)
      if (missing !== '') this.#showArguments(entry, missing, shown)
    }
    return shown
  }

  /** `named`: the calls that this list has named. A list names each call once. */
  #addDelta(
    delta: ChatToolCallDelta,
    named: Set<StreamedToolCall>,
    shown: ChatToolCallDelta[],
  ): void {
    assertShape(delta)
    const name = delta.function?.name || ''
    const text = argumentsText(delta.function?.arguments)
    const entry = this.#continued(delta, name, text, named) ?? this.#start(delta)
    if (name) named.add(entry)

    const { call } = entry
    this.#noteId(entry, delta.id)
    const called = call.function
    // Some servers repeat the name in every delta; others send it in pieces.
    if (called.name === '') called.name = name
    else if (called.name !== name && isNameOpen(entry)) called.name += name
    called.arguments += text
    const more = unknownFields(delta)
    addFields(call, more)

    if (entry.shown === undefined) {
      this.#showKnown(shown)
    } else if (text !== '' || Object.keys(more).length > 0) {
      addFields(entry.shown, more)
      this.#showArguments(entry, text, shown, more)
    }
  }

  /** The call that `delta` continues; undefined when it starts a new one. */
  #continued(
    { index, id }: ChatToolCallDelta,
    name: string,
    text: string,
    named: ReadonlySet<StreamedToolCall>,
  ): StreamedToolCall | undefined {
    const isNumbered = typeof index === 'number'
    const known = isNumbered
      ? (this.#latest.of(id, index) ?? this.#latest.numbered(index))
      : (this.#latest.of(id) ?? this.#entries.at(-1))
    if (known === undefined) {
      // A number that drifts from delta to delta, if nothing says that a call begins.
      const isOfKnownId = this.#latest.of(id)
      if (name || (id && (!isOfKnownId || text === ''))) return undefined
      const latest = isOfKnownId ?? this.#entries.at(-1)
      return latest && isFull(latest) && text.trim() !== '' ? undefined : latest
    }
    const { call, serverId } = known
    const isOtherId = Boolean(id && serverId && id !== serverId)
    if (!name) return isOtherId && isFull(known) ? undefined : known
    if (named.has(known)) return undefined
    if (call.function.name === '') return known
    if (isOtherId) return undefined
    const isSameId = Boolean(id && serverId)
    // Behind a whole object comes no other text of the same call.
    if (text.trimStart().startsWith('{') && isFull(known)) return undefined
    if (name === call.function.name) {
      // The same name again: repeated, perhaps with a late id, or a second call of the same tool.
      const mayBeSecond = id ? !isSameId : !isNumbered && serverId === undefined
      const isSpace = text !== '' && text.trim() === ''
      return mayBeSecond && !isSpace && isWhole(call.function.arguments) ? undefined : known
    }
    // The next piece of the name, or another tool.
    return isNameOpen(known) && (isNumbered || isSameId) ? known : undefined
  }

  #start({ index }: ChatToolCallDelta): StreamedToolCall {
    const call: ChatToolCall = { id: '', type: 'function', function: { name: '', arguments: '' } }
    const at = this.#entries.length
    const entry = { at, index, call, serverId: undefined, shown: undefined }
    this.#entries.push(entry)
    this.#latest.addNumbered(entry)
    return entry
  }

  #noteId(entry: StreamedToolCall, id: string | undefined): void {
    if (entry.serverId !== undefined || !id) return
    entry.serverId = id
    this.#latest.addNamed(entry, id)
    if (entry.shown === undefined) return
    entry.call.id = id
    this.#aliases.noteId(entry.shown.id, id)
  }

  /**
   * Shows the agent the next calls whose names are whole. Names end where the arguments begin, because servers may write
   * the names of several calls in turns; those that nothing tells apart are written one after the other.
   */
  #showKnown(shown: ChatToolCallDelta[]): void {
    for (let next = this.#entries[this.#known]; next; next = this.#entries[this.#known]) {
      const { index, serverId, at, call } = next
      const isLeft =
        typeof index !== 'number' && serverId === undefined && at < this.#entries.length - 1
      const { name, arguments: args } = call.function
      if (name === '' || (args === '' && !isLeft)) return
      this.#showNext(next, shown)
    }
  }

  /** Shows the agent a call, with its arguments so far. */
  #showNext(entry: StreamedToolCall, shown: ChatToolCallDelta[]): void {
    const { call, serverId } = entry
    const id = this.#aliases.idFor(serverId)
    call.id = serverId ?? id
    const name = this.#aliases.nameFor(call.function.name, this.#offered())
    const copy = copyOf(call)
    entry.shown = { ...copy, id, function: { ...copy.function, name } }
    this.#known = entry.at + 1
    shown.push({ index: entry.at, ...copyOf(entry.shown) })
  }

  #showArguments(
    entry: StreamedToolCall,
    text: string,
    shown: ChatToolCallDelta[],
    more: object = {},
  ): void {
    if (entry.shown) entry.shown.function.arguments += text
    shown.push({ index: entry.at, ...more, function: { arguments: text } })
  }
}

/** The latest calls by the numbers and ids that a server gave them. */
class LatestCalls {
  readonly #byIndex = new Map<number, StreamedToolCall>()
  readonly #byId = new Map<string, StreamedToolCall>()
  readonly #byBoth = new Map<string, StreamedToolCall>()

  addNumbered(entry: StreamedToolCall): void {
    if (typeof entry.index === 'number') this.#byIndex.set(entry.index, entry)
  }

  /** An earlier call may get its id after a later one. */
  addNamed(entry: StreamedToolCall, id: string): void {
    const both = `${entry.index} ${id}`
    if ((this.#byId.get(id)?.at ?? -1) < entry.at) this.#byId.set(id, entry)
    if ((this.#byBoth.get(both)?.at ?? -1) < entry.at) this.#byBoth.set(both, entry)
  }

  numbered(index: number): StreamedToolCall | undefined {
    return this.#byIndex.get(index)
  }

  /** @param index - default: any, or none */
  of(id: string | undefined, index?: number): StreamedToolCall | undefined {
    if (!id) return undefined
    return index === undefined ? this.#byId.get(id) : this.#byBoth.get(`${index} ${id}`)
  }
}

/** Fields that the SDK does not know may be objects, to which later deltas add. */
function copyOf(call: ChatToolCall): ChatToolCall {
  const isPlain = Object.keys(call).length === 3 && Object.keys(call.function).length === 2
  return isPlain ? { ...call, function: { ...call.function } } : structuredClone(call)
}

/** What a delta says of its call that the SDK does not know, such as signatures of its thinking. */
function unknownFields(delta: ChatToolCallDelta): object {
  const { index: _index, id: _id, type: _type, function: called, ...more } = delta
  const { name: _name, arguments: _arguments, ...ofFunction } = called ?? {}
  return Object.keys(ofFunction).length === 0 ? more : { ...more, function: ofFunction }
}

/** Whether the name of a call may continue. */
function isNameOpen({ call, shown }: StreamedToolCall): boolean {
  return call.function.arguments === '' && shown === undefined
}

/** Whether a call has no arguments. */
function isBare({ call }: StreamedToolCall): boolean {
  return call.function.arguments.trim() === ''
}

/** Whether the arguments of a call are a whole JSON object. */
function isFull({ call }: StreamedToolCall): boolean {
  const text = call.function.arguments.trim()
  return text.startsWith('{') && text.endsWith('}') && parseJson(text) !== undefined
}

/** Whether a text is JSON. Looks at its end first, because it grows with each delta. */
function isWhole(text: string): boolean {
  return /[\]}"\w]\s*$/.test(text.slice(-16)) && parseJson(text) !== undefined
}

/** Some servers parse the arguments that the policy wrote and send an object. */
function argumentsText(written: unknown): string {
  if (typeof written === 'string') return written
  return written === undefined || written === null ? '' : JSON.stringify(written)
}

function assertShape(delta: ChatToolCallDelta): void {
  if (typeof delta !== 'object' || delta === null) throw new TypeError('expected a tool call')
  const { index, id, function: called } = delta
  const isIndex = index === undefined || index === null || (Number.isInteger(index) && index >= 0)
  if (!isIndex) throw new TypeError('expected the index of a tool call')
  assertText(id)
  if (called === undefined || called === null) return
  if (typeof called !== 'object') throw new TypeError('expected the function of a tool call')
  assertText(called.name)
  const text: unknown = called.arguments
  if (typeof text !== 'object') assertText(text)
}

function assertText(value: unknown): void {
  if (typeof value === 'string' || value === null || value === undefined) return
  throw new TypeError('expected a text')
}
