import * as fc from 'fast-check'

import type { NamedServer } from './server-fields.ts'

/** How a server of a policy writes answers: switches that were seen in real servers and gateways. */
export interface ServerDialect {
  /** The answer as one JSON object, as events, or as events that call the delta `message`. */
  readonly form: 'json' | 'events' | 'messages'
  /** Whether every answer has the same id. */
  readonly isOneAnswerId: boolean
  /** Whether the first delta names the role. */
  readonly hasRole: boolean
  /** Of tool calls. `renumbered`: `call_0`, `call_1`, … in each answer again. */
  readonly ids:
    | 'own'
    | 'constant'
    | 'missing'
    | 'empty'
    | 'null'
    | 'renumbered'
    | 'repeated'
    | 'everywhere'
    | 'late'
  readonly index: 'own' | 'missing' | 'null' | 'shifted' | 'same' | 'drifting'
  /** `alone`: in a first delta that has no arguments. */
  readonly names: 'first' | 'alone' | 'late' | 'pieces' | 'everywhere'
  readonly written: 'text' | 'object'
  /** Arguments and texts come in about this many pieces. */
  readonly pieces: number
  /** What replaces a text that is missing. */
  readonly noText: 'null' | 'empty' | 'missing'
  /** Whether deltas name every field, also those without a value. */
  readonly nulls: boolean
  /** Whether chunks before the end name a finish reason, null. */
  readonly hasOpenFinish: boolean
  /** The server whose own fields stand beside those that all have. */
  readonly fields: NamedServer | 'none'
  readonly thinking: 'reasoning_content' | 'reasoning' | 'both'
  /** `stop` and `unknown`: also behind calls. */
  readonly finish: 'first' | 'last' | 'beside' | 'twice' | 'missing' | 'null' | 'stop' | 'unknown'
  readonly usage: 'behind' | 'beside' | 'absent'
  readonly keepAlive: 'none' | 'comments' | 'empty' | 'events' | 'pings'
  readonly lineEnd: '\n' | '\r\n'
  readonly contentType: string
  readonly hasDone: boolean
  /** Whether calls have fields that the SDK does not know. */
  readonly hasSignatures: boolean
}

const dialects: fc.Arbitrary<ServerDialect> = fc.record({
  form: fc.constantFrom('events', 'events', 'events', 'json', 'messages'),
  isOneAnswerId: fc.boolean(),
  hasRole: fc.boolean(),
  ids: fc.constantFrom(
    'own',
    'constant',
    'missing',
    'empty',
    'null',
    'renumbered',
    'repeated',
    'everywhere',
    'late',
  ),
  index: fc.constantFrom('own', 'missing', 'null', 'shifted', 'same', 'drifting'),
  names: fc.constantFrom('first', 'alone', 'late', 'pieces', 'everywhere'),
  written: fc.constantFrom('text', 'text', 'object'),
  pieces: fc.integer({ min: 1, max: 4 }),
  noText: fc.constantFrom('null', 'empty', 'missing'),
  nulls: fc.boolean(),
  hasOpenFinish: fc.boolean(),
  fields: fc.constantFrom('none', 'none', 'llama.cpp', 'vllm'),
  thinking: fc.constantFrom('reasoning_content', 'reasoning', 'both'),
  finish: fc.constantFrom('first', 'last', 'beside', 'twice', 'missing', 'null', 'stop', 'unknown'),
  usage: fc.constantFrom('behind', 'beside', 'absent'),
  keepAlive: fc.constantFrom('none', 'comments', 'empty', 'events', 'pings'),
  lineEnd: fc.constantFrom('\n', '\r\n'),
  contentType: fc.constantFrom(
    'text/event-stream',
    'text/event-stream; charset=utf-8',
    'Text/Event-Stream;Charset=UTF-8',
    'application/json',
    'Application/JSON',
    'application/x-ndjson',
  ),
  hasDone: fc.boolean(),
  hasSignatures: fc.boolean(),
})

/** Dialects in which no two answers look alike. */
export const serverDialects: fc.Arbitrary<ServerDialect> = dialects.map((dialect) => {
  let { ids, names, written, hasDone } = dialect
  const { form, index, finish } = dialect
  // Something has to end an answer.
  if (form !== 'json' && (finish === 'first' || finish === 'missing' || finish === 'null'))
    hasDone = true
  if (form === 'events') {
    const isNumbered = index === 'own' || index === 'shifted'
    if (!isNumbered && names !== 'everywhere') names = 'first'
    // Each number is new, so only the first delta of a call may say that it begins.
    if (index === 'drifting') names = 'first'
    if (index === 'drifting' && (ids === 'everywhere' || ids === 'late')) ids = 'own'
    if (!isNumbered && ids === 'late') ids = 'own'
    if (written === 'object') names = 'first'
  } else if (ids === 'late') ids = 'own'
  return { ...dialect, ids, names, written, hasDone }
})

/**
 * Whether only the arguments show where one call ends and the next begins, so that they have to be whole objects.
 */
export function tellsCallsApartByArguments({ form, ids, index }: ServerDialect): boolean {
  if (form !== 'events') return false
  const byIndex = index === 'own' || index === 'shifted' || index === 'drifting'
  const byId = ids === 'own' || ids === 'renumbered' || ids === 'everywhere'
  return !byIndex && !byId
}

/** How llama.cpp's server streams answers; as JSON, a text that is missing is empty. */
export const llamaCpp: ServerDialect = {
  form: 'events',
  isOneAnswerId: false,
  hasRole: true,
  ids: 'own',
  index: 'own',
  names: 'first',
  written: 'text',
  pieces: 4,
  noText: 'null',
  nulls: false,
  hasOpenFinish: true,
  fields: 'llama.cpp',
  thinking: 'reasoning_content',
  finish: 'last',
  usage: 'behind',
  keepAlive: 'none',
  lineEnd: '\n',
  contentType: 'text/event-stream',
  hasDone: true,
  hasSignatures: false,
}

/** How vLLM streams the text of an answer; it sends the finish reason of calls behind them, and `null` as their text. */
export const vllm: ServerDialect = {
  ...llamaCpp,
  names: 'alone',
  noText: 'empty',
  fields: 'vllm',
  thinking: 'reasoning',
  finish: 'beside',
  contentType: 'text/event-stream; charset=utf-8',
}
