import * as fc from 'fast-check'

/** What servers send in the middle of an answer when they fail; `[DONE]` may follow. */
export const reports: readonly object[] = [
  { error: { message: 'CUDA out of memory', code: 500 } },
  { error: 'overloaded' },
  { object: 'error', message: 'engine died', type: 'InternalServerError', code: 500 },
  { detail: 'Internal Server Error' },
  { detail: [{ loc: ['body'], msg: 'gone' }] },
  { errors: [{ message: 'upstream' }] },
  { error_code: 50000, error_msg: 'backend' },
  { code: 10007, message: 'too busy' },
  { code: 'internal_error', message: 'x' },
  { status: 503, message: 'unavailable' },
  { success: false, message: 'no' },
  { type: 'error', message: 'x' },
  { message: 'The engine has stopped.' },
  { x_groq: { id: 'r', error: 'over capacity' } },
  { x: { status_code: 1002, status_msg: 'rate limit' }, choices: [] },
  { choices: [], errorCode: 'E500', errorMessage: 'x' },
  { choices: [], statusCode: 500 },
  { choices: [], modelStreamErrorException: { message: 'x' } },
  { choices: [], error: { message: 'x' } },
  { choices: [], object: 'error', message: 'x' },
  { choices: [{ index: 0, delta: { content: '' }, finish_reason: null, error: { code: 502 } }] },
  { choices: [{ index: 0, delta: { error: 'x' }, finish_reason: 'stop' }] },
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], error: { message: 'x' } },
  ...[
    'abort',
    'error',
    'cancelled',
    'canceled',
    'aborted',
    'ABORTED',
    'timeout',
    'server_error',
    'failed',
    'interrupted',
    'network_error',
    'insufficient_system_resource',
    'oom',
    'unload',
    'weight_update',
  ].map((reason) => ({ choices: [{ index: 0, delta: {}, finish_reason: reason }] })),
]

/** What a server sends without an end. */
type Flood = keyof typeof floods

/** The parts of an answer that never ends, by their numbers: each has about a kilobyte. */
export const floods = {
  text: (): string => event({ delta: { content: 'a '.repeat(500) } }),
  thinking: (): string => event({ delta: { reasoning_content: 'a '.repeat(500) } }),
  tokenIds: (): string => event({ delta: {}, token_ids: Array.from({ length: 250 }, () => 100) }),
  logprobs: (): string =>
    event({
      delta: {},
      logprobs: { content: Array.from({ length: 30 }, () => ({ token: 'a', logprob: -1 })) },
    }),
  calls: (at: number): string =>
    event({ delta: { tool_calls: [call(at + 1, 'add', 'a'.repeat(900))] } }),
  arguments: (at: number): string =>
    event({ delta: { tool_calls: [call(0, at === 0 ? 'add' : '', ' '.repeat(900))] } }),
  fields: (at: number): string =>
    `data: ${JSON.stringify({ choices: [], [`x_${at}`]: 'a'.repeat(900) })}\n\n`,
  event: (at: number): string => `${at === 0 ? 'data: ' : ''}${'a'.repeat(1000)}`,
  comments: (): string => `: ${'a'.repeat(1000)}\n`,
} as const

function event(choice: object): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`
}

function call(index: number, name: string, args: string): object {
  return { index, id: `flood-${index}`, type: 'function', function: { name, arguments: args } }
}

/** How an answer breaks off: at a share of its bytes, by a report, by the end of the connection or by having none. */
export interface Failure {
  /** Undefined: it ends. */
  readonly flood: Flood | undefined
  readonly at: number
  /** The data of an event; undefined: the body ends, as if it were whole, or with the connection. */
  readonly report: object | undefined
  readonly isReset: boolean
}

export const failures: fc.Arbitrary<Failure> = fc.record({
  flood: fc.option(fc.constantFrom(...(Object.keys(floods) as Flood[])), {
    freq: 2,
    nil: undefined,
  }),
  // Where nothing of an answer has come, it is asked for again.
  at: fc.double({ min: 0.01, max: 0.999, noNaN: true }),
  report: fc.oneof(fc.constantFrom(...reports), fc.constant(undefined)),
  isReset: fc.boolean(),
})
