import type { GivenCall, PolicyTurn } from './policy-turns.ts'
import type { ServerDialect } from './server-dialects.ts'
import { fieldsOf } from './server-fields.ts'

/** An answer as a server writes it. */
export interface WrittenAnswer {
  readonly contentType: string
  /** Parts of the body; an answer is complete from the one at `completeFrom` on. */
  readonly parts: readonly string[]
  /** How many parts have to arrive before the answer is complete. */
  readonly completeFrom: number
}

type Delta = Record<string, unknown>

const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 }
const signature = { google: { thought_signature: 'c2ln' } }

/** The id that the server gives a call; undefined when it gives none. */
export function givenId(
  { ids }: ServerDialect,
  turn: number,
  place: number,
): string | null | undefined {
  switch (ids) {
    case 'own':
    case 'everywhere':
    case 'late':
      return `c-${turn}-${place}`
    case 'constant':
      return 'call_0'
    case 'renumbered':
      return `call_${place}`
    case 'repeated':
      return `turn-${turn}`
    case 'empty':
      return ''
    case 'null':
      return null
    case 'missing':
      return undefined
  }
}

/** Writes an answer in a dialect. */
export function writeAnswer(
  turn: PolicyTurn,
  dialect: ServerDialect,
  number: number,
): WrittenAnswer {
  return dialect.form === 'json'
    ? {
        contentType: jsonType(dialect),
        parts: [jsonAnswer(turn, dialect, number)],
        completeFrom: 1,
      }
    : eventAnswer(turn, dialect, number)
}

function jsonType({ contentType }: ServerDialect): string {
  return /json/i.test(contentType) ? contentType : 'application/json'
}

function jsonAnswer(turn: PolicyTurn, dialect: ServerDialect, number: number): string {
  const reason = finishReason(turn, dialect)
  const fields = fieldsOf(dialect.fields)
  return JSON.stringify({
    id: answerId(dialect, number),
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [
      {
        index: 0,
        message: { ...fields.message, ...wholeMessage(turn, dialect, number) },
        ...fields.choice,
        ...(reason === undefined ? {} : { finish_reason: reason }),
      },
    ],
    ...fields.answer,
    ...(dialect.usage === 'absent'
      ? {}
      : { usage: { ...usage, ...fields.usage }, ...fields.besideUsage }),
  })
}

function streamedUsage(dialect: ServerDialect): object {
  const fields = fieldsOf(dialect.fields)
  return { usage: { ...usage, ...fields.streamedUsage }, ...fields.besideStreamedUsage }
}

function wholeMessage(turn: PolicyTurn, dialect: ServerDialect, number: number): Delta {
  const calls = turn.calls.map((call, place) => ({
    ...idField(givenId(dialect, number, place)),
    ...indexField(dialect, place, place),
    type: 'function',
    function: { name: call.name, arguments: argumentsIn(call, dialect) },
    ...(dialect.hasSignatures ? { extra_content: signature } : {}),
  }))
  return {
    role: 'assistant',
    ...textField(turn, dialect),
    ...thinkingFields(turn.thinking, dialect),
    ...(turn.refusal === '' ? {} : { refusal: turn.refusal }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(dialect.nulls && calls.length === 0 ? { tool_calls: null, function_call: null } : {}),
  }
}

function eventAnswer(turn: PolicyTurn, dialect: ServerDialect, number: number): WrittenAnswer {
  const chunks: object[] = []
  const say = (delta: Delta, reason?: string | null, more: object = {}): void => {
    chunks.push(chunkOf(delta, dialect, number, { reason, more, isFirst: chunks.length === 0 }))
  }
  const reason = finishReason(turn, dialect)
  const besideReason = dialect.finish === 'beside' ? reason : undefined
  const besideUsage = dialect.usage === 'beside' ? streamedUsage(dialect) : {}
  const isFirst = dialect.finish === 'first'
  if (dialect.form === 'messages') {
    if (isFirst) say({}, reason)
    say(wholeMessage(turn, dialect, number), besideReason)
  } else {
    const role = dialect.hasRole ? { role: 'assistant' } : {}
    const { noText } = dialect
    const empty = noText === 'missing' ? {} : { content: noText === 'null' ? null : '' }
    say({ ...role, ...empty }, isFirst ? reason : undefined)
    for (const piece of piecesOf(turn.thinking, dialect.pieces)) say(thinkingFields(piece, dialect))
    for (const piece of piecesOf(turn.text, dialect.pieces)) say({ content: piece })
    for (const piece of piecesOf(turn.refusal, dialect.pieces)) say({ refusal: piece })
    const deltas = callDeltas(turn, dialect, number)
    const { callDelta } = fieldsOf(dialect.fields)
    for (const delta of deltas) say({ ...callDelta, tool_calls: [delta] })
    if (besideReason !== undefined) {
      // The finish reason stands beside the last piece.
      const last = chunks.pop() as { choices: object[] }
      const ended = { finish_reason: besideReason, ...fieldsOf(dialect.fields).lastChoice }
      chunks.push({ ...last, choices: [{ ...last.choices[0], ...ended }] })
    }
  }
  if (reason !== undefined && reason !== null && besideReason === undefined && !isFirst) {
    say({}, reason, besideUsage)
    if (dialect.finish === 'twice') say({ content: dialect.noText === 'null' ? null : '' }, reason)
  }
  const events = chunks.map((chunk) => event(JSON.stringify(chunk), dialect))
  const ending = isFirst ? -1 : chunks.findIndex((chunk) => hasReason(chunk))
  if (dialect.usage === 'behind') {
    const last = { ...headOf(dialect, number), choices: [], ...streamedUsage(dialect) }
    events.push(event(JSON.stringify(last), dialect))
  }
  const parts = events.flatMap((text, at) => (at === 0 ? [text] : [keepAlive(dialect), text]))
  if (dialect.hasDone) parts.push(event('[DONE]', dialect))
  return {
    contentType: dialect.contentType,
    parts,
    // Parts of events and of what keeps the connection alive take turns.
    completeFrom: ending === -1 ? parts.length : ending * 2 + 1,
  }
}

function answerId({ isOneAnswerId }: ServerDialect, number: number): string {
  return isOneAnswerId ? 'answer' : `answer-${number}`
}

function hasReason(chunk: object): boolean {
  const { choices } = chunk as { choices: { finish_reason?: unknown }[] }
  return Boolean(choices[0]?.finish_reason)
}

function chunkOf(
  delta: Delta,
  dialect: ServerDialect,
  number: number,
  { reason, more, isFirst }: { reason: string | null | undefined; more: object; isFirst: boolean },
): object {
  const fields = fieldsOf(dialect.fields)
  const { form, nulls, finish, hasOpenFinish } = dialect
  const empty = nulls
    ? { content: null, refusal: null, reasoning_content: null, tool_calls: null }
    : {}
  const key = form === 'messages' && Object.keys(delta).length > 0 ? 'message' : 'delta'
  const isNamed = reason !== undefined || nulls || hasOpenFinish || finish === 'null'
  return {
    ...headOf(dialect, number),
    choices: [
      {
        index: 0,
        [key]: { ...empty, ...delta },
        ...(isFirst ? fields.firstChoice : fields.laterChoice),
        ...(isNamed ? { finish_reason: reason ?? null } : {}),
        ...(reason ? fields.lastChoice : {}),
      },
    ],
    ...(isFirst ? fields.firstChunk : {}),
    ...more,
  }
}

function headOf(dialect: ServerDialect, number: number): object {
  return {
    id: answerId(dialect, number),
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    ...fieldsOf(dialect.fields).everyChunk,
  }
}

function callDeltas(turn: PolicyTurn, dialect: ServerDialect, number: number): Delta[] {
  let drift = 0
  return turn.calls.flatMap((call, place) => {
    const id = givenId(dialect, number, place)
    const written = argumentsIn(call, dialect)
    const pieces =
      typeof written === 'string' ? piecesOf(written, dialect.pieces) : ([written] as unknown[])
    const names = namePieces(call.name, dialect)
    const signed = dialect.hasSignatures ? { extra_content: signature } : {}
    const delta = (at: number, called: Delta, more: Delta = {}): Delta => {
      const isIdHere =
        dialect.ids === 'everywhere' ||
        dialect.ids === 'constant' ||
        (dialect.ids === 'late' ? at === 1 : at === 0)
      const isDrifting = dialect.index === 'drifting'
      return {
        ...(isIdHere && (at === 0 || !isDrifting) ? idField(id) : {}),
        ...indexField(dialect, place, (drift += 1) - 1),
        ...(at === 0 ? { type: 'function', ...more } : {}),
        function: called,
      }
    }
    if (dialect.names === 'late') {
      return [
        delta(0, { arguments: '' }),
        { ...delta(1, { name: call.name, arguments: pieces[0] ?? '' }), ...signed },
        ...pieces.slice(1).map((piece, at) => delta(at + 2, { arguments: piece })),
      ]
    }
    const [firstName = '', ...restOfName] = names
    const isAlone = dialect.names === 'alone'
    const isWithName = restOfName.length === 0 && dialect.ids !== 'late' && !isAlone
    // The delta that brings the id.
    if (dialect.ids === 'late' && pieces.length === 0) pieces.push('')
    return [
      delta(
        0,
        {
          name: firstName,
          ...(isAlone ? {} : { arguments: isWithName ? (pieces[0] ?? '') : '' }),
        },
        signed,
      ),
      ...restOfName.map((name, at) => delta(at + 1, { name, arguments: '' })),
      ...pieces.slice(isWithName ? 1 : 0).map((piece, at) =>
        delta(at + 1 + restOfName.length, {
          ...(dialect.names === 'everywhere' ? { name: call.name } : {}),
          arguments: piece,
        }),
      ),
    ]
  })
}

function namePieces(name: string, { names }: ServerDialect): string[] {
  if (names !== 'pieces') return [name]
  const pieces = piecesOf(name, 2)
  // A piece that is the name so far looks as if the server repeated it.
  return pieces.length === 2 && pieces[0] === pieces[1] ? [name] : pieces
}

/** The arguments as text, or as what they mean where the server parses them. */
function argumentsIn({ written }: GivenCall, dialect: ServerDialect): unknown {
  if (dialect.written === 'text') return written
  try {
    const value: unknown = JSON.parse(written)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    // Only such a text can come back from the object.
    return isObject && JSON.stringify(value) === written ? value : written
  } catch {
    return written
  }
}

function finishReason(
  { calls, isCut }: PolicyTurn,
  { finish }: ServerDialect,
): string | null | undefined {
  if (isCut) return 'length'
  if (finish === 'missing') return undefined
  if (finish === 'null') return null
  if (finish === 'stop') return 'stop'
  if (finish === 'unknown') return 'eos_token'
  return calls.length > 0 ? 'tool_calls' : 'stop'
}

function idField(id: string | null | undefined): Delta {
  return id === undefined ? {} : { id }
}

function indexField({ index, form }: ServerDialect, place: number, drift: number): Delta {
  switch (index) {
    case 'own':
      return { index: place }
    case 'shifted':
      return { index: place + 1 }
    case 'same':
      return { index: 0 }
    case 'null':
      return { index: null }
    case 'drifting':
      return { index: form === 'events' ? drift : place }
    case 'missing':
      return {}
  }
}

function textField({ text }: PolicyTurn, { noText }: ServerDialect): Delta {
  if (text !== '') return { content: text }
  if (noText === 'missing') return {}
  return { content: noText === 'null' ? null : '' }
}

function thinkingFields(text: string, { thinking }: ServerDialect): Delta {
  if (text === '') return {}
  return {
    ...(thinking === 'reasoning' ? {} : { reasoning_content: text }),
    ...(thinking === 'reasoning_content' ? {} : { reasoning: text }),
  }
}

/** The text in about this many pieces; surrogate pairs may be torn, as servers tear them. */
function piecesOf(text: string, count: number): string[] {
  if (text === '') return []
  const characters = Array.from(text)
  const size = Math.ceil(characters.length / count)
  const pieces: string[] = []
  for (let at = 0; at < characters.length; at += size) {
    pieces.push(characters.slice(at, at + size).join(''))
  }
  return pieces
}

function event(data: string, { lineEnd }: ServerDialect): string {
  return `data: ${data}${lineEnd}${lineEnd}`
}

function keepAlive({ keepAlive: kind, lineEnd }: ServerDialect): string {
  const end = `${lineEnd}${lineEnd}`
  switch (kind) {
    case 'none':
      return ''
    case 'comments':
      return `: keep-alive${end}`
    case 'empty':
      return `data:${end}`
    case 'events':
      return `event: ping${lineEnd}data: {"time":1}${end}`
    case 'pings':
      return `data: {"type":"ping"}${end}`
  }
}
