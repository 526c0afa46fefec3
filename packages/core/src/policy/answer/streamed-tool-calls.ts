import { parseJson } from '../../http/json.ts'
import type { CallAliases } from '../call-aliases.ts'
import type { ChatToolCall, ChatToolCallDelta } from '../chat-completion.ts'
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
  /** The latest call by what the server told it by: an answer may have 100,000 calls, so nothing searches in all of them. */
  readonly #latest = new Map<string, StreamedToolCall>()
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
    const { index, id, function: called } = delta
    const [name, text] = [called?.name || '', called?.arguments || '']
    const read = { index, id, name, text }
    const known = this.#latestOf(read)
    const isNew = known === undefined || (name && named.has(known)) || begins(read, known)
    const entry = isNew ? this.#start(index) : known
    if (name) named.add(entry)

    const { call } = entry
    this.#noteId(entry, id)
    // Some servers repeat the name in every delta; others send it in pieces.
    if (call.function.name === '') call.function.name = name
    else if (call.function.name !== name && isNameOpen(entry)) call.function.name += name
    call.function.arguments += text
    const more = unknownFields(delta)
    addFields(call, more)

    if (entry.shown === undefined) {
      this.#showKnown(shown)
    } else if (text !== '' || Object.keys(more).length > 0) {
      addFields(entry.shown, more)
      this.#showArguments(entry, text, shown, more)
    }
  }

  /**
   * The latest call that a delta tells: by its number, and its id where several have that number, or else by its id. A delta
   * without both is of the latest call at all. So is one with a new number that begins nothing, because numbers may drift.
   */
  #latestOf({ index, id, name, text }: ReadDelta): StreamedToolCall | undefined {
    const ofId = id ? this.#latest.get(` ${id}`) : undefined
    if (typeof index !== 'number') return ofId ?? this.#entries.at(-1)
    const numbered = this.#latest.get(`${index} ${id ?? ''}`) ?? this.#latest.get(`${index}`)
    if (numbered !== undefined || name) return numbered
    if (id) return text === '' ? undefined : ofId
    return this.#entries.at(-1)
  }

  #start(index: number | undefined): StreamedToolCall {
    const call: ChatToolCall = { id: '', type: 'function', function: { name: '', arguments: '' } }
    const at = this.#entries.length
    const entry = { at, index, call, serverId: undefined, shown: undefined }
    this.#entries.push(entry)
    this.#latest.set(`${index}`, entry)
    return entry
  }

  #noteId(entry: StreamedToolCall, id: string | undefined): void {
    if (entry.serverId !== undefined || !id) return
    entry.serverId = id
    // An earlier call may get its id after a later one.
    for (const key of [` ${id}`, `${entry.index} ${id}`]) {
      if ((this.#latest.get(key)?.at ?? -1) < entry.at) this.#latest.set(key, entry)
    }
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

interface ReadDelta {
  readonly index: number | undefined
  readonly id: string | undefined
  /** '' without one. */
  readonly name: string
  readonly text: string
}

/** Whether a delta begins a call of its own, and does not continue the call that it tells. */
function begins({ index, id, name, text }: ReadDelta, known: StreamedToolCall): boolean {
  const { call, serverId } = known
  const isNumbered = typeof index === 'number'
  const isOtherId = Boolean(id && serverId && id !== serverId)
  const isSameId = id ? id === serverId : serverId !== undefined
  if (!name) {
    const hasDrifted = isNumbered && index !== known.index && text.trim() !== ''
    return (isOtherId || hasDrifted) && isFull(known)
  }
  if (call.function.name === '') return false
  if (isOtherId) return true
  // The next piece of the name, or another tool.
  if (name !== call.function.name) return !isNameOpen(known) || !(isNumbered || (id && isSameId))
  // The same name again: repeated, perhaps with a late id, or a second call of the same tool.
  const isRepeated = isSameId || (isNumbered && !id)
  const isObject = text.trimStart().startsWith('{')
  const isSpace = text !== '' && text.trim() === ''
  return (isObject || (!isRepeated && !isSpace)) && isFull(known)
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
