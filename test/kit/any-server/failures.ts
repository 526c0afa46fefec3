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
  { unheard: 'of' },
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

/** How an answer breaks off: at a share of its bytes, by a report or by the end of the connection. */
export interface Failure {
  readonly at: number
  /** The data of an event; undefined: the body ends, as if it were whole, or with the connection. */
  readonly report: object | undefined
  readonly isReset: boolean
}

export const failures: fc.Arbitrary<Failure> = fc.record({
  at: fc.double({ min: 0, max: 0.999, noNaN: true }),
  report: fc.oneof(fc.constantFrom(...reports), fc.constant(undefined)),
  isReset: fc.boolean(),
})
