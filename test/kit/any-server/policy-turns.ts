import * as fc from 'fast-check'

/** A tool call as the policy wrote it. */
export interface GivenCall {
  readonly name: string
  /** Usually the text of a JSON object. */
  readonly written: string
}

/** One answer of a policy, whatever its server makes of it. */
export interface PolicyTurn {
  readonly text: string
  readonly thinking: string
  readonly refusal: string
  readonly calls: readonly GivenCall[]
  /** Whether it reached the limit of its length: in its last call, or behind calls that are whole. */
  readonly isCut: boolean
}

/** Whether the limit of its length left the calls of a turn whole, so that they run. Of other calls behind the limit none has to. */
export function hasWholeCalls({ calls: made }: PolicyTurn): boolean {
  const before = made.slice(0, -1)
  const latest = made.at(-1)
  if (latest === undefined || !isObject(latest.written)) return false
  return before.every(({ written }) => written.trim() === '' || isObject(written))
}

function isObject(written: string): boolean {
  try {
    return written.trim().startsWith('{') && typeof JSON.parse(written) === 'object'
  } catch {
    return false
  }
}

/** The tools of the agents under test. */
export const offeredTools = ['add', 'sub', 'now', 'get_weather'] as const

/** Names that policies make up: pieces of templates, other alphabets, keys of every object. */
const foreignNames = [
  'nope',
  'add<|channel|>analysis',
  'functions.add',
  'add sub',
  'добавить',
  '加',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'add:0',
  '<tool>',
  'a'.repeat(70),
]

const words = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 24 })
  .map((text) => `${text.trim() || 'so'}.`)

/** Keys of arguments that mean something to a careless program. */
const harmfulKeys = ['__proto__', 'constructor', 'toString', 'length', '__unparsedToolInput']

/** JSON objects in the ways that policies write them. */
const writtenObjects: fc.Arbitrary<string> = fc
  .tuple(
    fc.uniqueArray(
      fc.tuple(
        fc.oneof(
          { weight: 4, arbitrary: fc.constantFrom('a', 'path', 'x y') },
          { weight: 4, arbitrary: fc.string({ maxLength: 6 }) },
          { weight: 1, arbitrary: fc.constantFrom(...harmfulKeys) },
        ),
        fc.jsonValue({ maxDepth: 2 }),
      ),
      { maxLength: 3, selector: ([key]) => key },
    ),
    fc.constantFrom('', ' ', '\n  '),
    fc.constantFrom('', ' ', '\n'),
  )
  .map(([fields, gap, space]) => {
    const written = fields.map(
      ([key, value]) => `${gap}${JSON.stringify(key)}:${gap}${JSON.stringify(value)}`,
    )
    return `${space}{${written.join(',')}${gap}}${space}`
  })

const malformed = fc.oneof(
  writtenObjects.map((text) => text.trim().slice(0, -1)),
  fc.constantFrom(
    '{"path":"/data',
    '{"a": 1, "b',
    'a=1',
    '{a: 1}',
    '{"a":1}}',
    'null',
    '"x"',
    '[1]',
    '12',
  ),
)

const calls = fc.record({
  name: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...offeredTools) },
    { weight: 2, arbitrary: fc.constantFrom(...foreignNames) },
  ),
  written: fc.oneof(
    { weight: 8, arbitrary: writtenObjects },
    { weight: 1, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: malformed },
  ),
})

const beside = {
  thinking: fc.oneof({ weight: 3, arbitrary: fc.constant('') }, { weight: 1, arbitrary: words }),
  refusal: fc.constant(''),
}

/** Turns that end with calls, some of them at the limit of their length. */
const callingTurns: fc.Arbitrary<PolicyTurn> = fc
  .record({
    ...beside,
    text: fc.oneof(fc.constant(''), words),
    calls: fc.array(calls, { minLength: 1, maxLength: 3 }),
    isCut: fc.boolean(),
  })
  .map((turn) => ({ ...turn, isCut: turn.isCut && hasWholeCalls(turn) }))

/** The last turn of a conversation: a text, a refusal, or what the limit of its length left. */
const lastTurns: fc.Arbitrary<PolicyTurn> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      ...beside,
      text: words,
      calls: fc.constant([]),
      isCut: fc.constant(false),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...beside,
      text: words,
      calls: fc.constant([]),
      isCut: fc.constant(true),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      thinking: fc.constant(''),
      text: fc.constant(''),
      refusal: words,
      calls: fc.constant([]),
      isCut: fc.constant(false),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...beside,
      text: fc.oneof(fc.constant(''), words),
      calls: fc
        .tuple(
          fc.array(calls, { maxLength: 1 }),
          fc.constantFrom(...offeredTools),
          fc.constantFrom('', '{', '{"path":"/data', '{"path":"/data","a":[1,', '{"a": tru'),
        )
        .map(([before, name, written]) => [...before, { name, written }]),
      isCut: fc.constant(true),
    }),
  },
)

/** The answers of a policy in one conversation. */
export const conversations: fc.Arbitrary<readonly PolicyTurn[]> = fc
  .tuple(fc.array(callingTurns, { maxLength: 3 }), lastTurns)
  .map(([turns, last]) => [...turns, last])
