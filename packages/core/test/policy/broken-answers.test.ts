import { RolloutContext } from '@osmosis/core'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { failures, reports } from '../../../../test/kit/any-server/index.ts'
import { chunk, eventStream, startPolicyEndpoint, usage, runs } from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]
const done = 'data: [DONE]\n\n'
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const hello = data(chunk({ content: 'hello' }))
const stop = data(chunk({}, 'stop'))

/** A policy that answers `body`, and what a call of it gives: its text, or the code and the message of the error. */
async function startAsking() {
  let answer = { body: '', contentType: 'text/event-stream', isReset: false }
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': answer.contentType })
    if (answer.isReset) response.write(answer.body, () => response.socket?.destroy())
    else response.end(answer.body)
  })
  return async (body: string, more: Partial<typeof answer> = {}): Promise<string> => {
    answer = { body, contentType: 'text/event-stream', isReset: false, ...more }
    const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    return rollout
      .policy('main')
      .complete({ messages })
      .then(
        ({ choices }) => choices[0]?.message.content ?? '',
        (error: Error & { code?: string }) => `${error.code}: ${error.message}`,
      )
  }
}

it.each(reports.map((report) => [JSON.stringify(report)]))(
  'an answer with %s in its middle has failed, wherever that stands',
  async (report) => {
    const ask = await startAsking()
    const event = `data: ${report}\n\n`
    for (const body of [event, hello + event, hello + event + stop, hello + stop + event]) {
      expect(await ask(body + done)).toMatch(/^policy_stream_error: /)
    }
  },
)

it.each([
  'error: {"code":500,"message":"boom"}',
  '{"error":{"message":"boom"}}',
  'Internal Server Error: boom',
  '<html>boom</html>',
  '500 boom',
  'event: error\ndata: boom',
])('the line %s has failed the answer, wherever it stands', async (line) => {
  const ask = await startAsking()
  for (const body of [hello + `${line}\n\n`, hello + `${line}\n\n` + stop]) {
    expect(await ask(body + done)).toMatch(/^policy_stream_error: .*boom/)
  }
  expect(await ask(hello.trimEnd() + `\n${line}\n\n` + done)).toMatch(/^policy_stream_error: /)
  expect(await ask(hello + stop + done + `${line}\n\n`)).toBe('hello')
})

it('an error without data has failed the answer', async () => {
  const ask = await startAsking()
  expect(await ask(hello + 'event: error\ndata:\n\n' + done)).toMatch(/^policy_stream_error: /)
})

it('quotes what the server said', async () => {
  const ask = await startAsking()
  const quotes = [
    [{ object: 'error', message: 'CUDA out of memory' }, /CUDA out of memory/],
    [{ detail: 'gone' }, /gone/],
    [{ errors: [{ message: 'upstream' }] }, /upstream/],
    [chunk({}, 'abort'), /finish_reason "abort"/],
  ] as const
  for (const [report, quote] of quotes) {
    expect(await ask(hello + data(report) + done)).toMatch(quote)
  }
})

/** Finish reasons in the words of servers and gateways: SGLang, vLLM, DeepSeek, OpenRouter, Bedrock, LiteLLM. */
const brokenReasons = [
  'abort',
  'ABORT',
  'request_aborted',
  'cancelled',
  'canceled',
  'server-cancelled',
  'error',
  'network_error',
  'engineError',
  'ERROR_INTERNAL',
  'failed',
  'upstream failure',
  'fault',
  'interrupted',
  'preempted',
  'kv_evicted',
  'retracted',
  'timeout',
  'timed_out',
  'time out',
  'overloaded',
  'insufficient_system_resource',
  'out_of_memory',
  'oom',
  'weights_updated',
  'weight_update',
  'model_unloaded',
  'shutdown',
  'shutting_down',
  'incomplete',
  'unavailable',
]

it.each(brokenReasons)('an answer with the finish reason %s was broken off', async (reason) => {
  const ask = await startAsking()
  expect(await ask(hello + data(chunk({}, reason)) + done)).toMatch(/^policy_stream_error: /)
})

it.each([
  'default',
  'Default',
  'terminal',
  'terrific',
  'failsafe_stop',
  'interruptible_stop',
  'cancellable',
  'pausetoken',
  'finished',
  'COMPLETE',
  'unknown',
  'FINISH_REASON_UNSPECIFIED',
])('the finish reason %s, which has a bad word inside of a word, is no fault', async (reason) => {
  const ask = await startAsking()
  expect(await ask(hello + data(chunk({}, reason)) + done)).toBe('hello')
})

it.each([
  ['timings of llama.cpp', { timings: { predicted_n: 3, predicted_per_second: 51.2 } }],
  ['citations', { citations: ['https://example.org'] }],
  ['metadata', { type: 'metadata', metadata: { provider: 'x', region: 'default' } }],
  ['a state in words', { status: 'default', info: {} }],
  ['search results', { search_results: [{ title: 'error handling' }] }],
  ['what nobody has heard of', { unheard: 'of' }],
  ['limits of use', { type: 'usage_limits', limits: { requests_limit: 60 } }],
  ['internal figures', { type: 'internal_metrics', object: 'engine.limits' }],
])('%s beside a whole answer are no failure', async (_what, vendor) => {
  const ask = await startAsking()
  for (const body of [data(vendor) + hello + stop, hello + data(vendor) + stop]) {
    expect(await ask(body + done)).toBe('hello')
  }
  expect(await ask(hello + stop + data(vendor) + done)).toBe('hello')
  // Alone, and behind half an answer, they are none.
  expect(await ask(data(vendor) + done)).toMatch(/^policy_stream_error: /)
  expect(await ask(hello + data(vendor))).toMatch(/^policy_stream_error: /)
})

it.each([
  'trace: 17',
  'x-request-id: abc',
  'retry-after: 3',
  'x-ratelimit-limit: 60',
  'foo:',
  'meta: {"region":"default"}',
  'meta: {"limit":60,"errors":[],"note":"no error"}',
])('the unknown field %s of an event is ignored', async (line) => {
  const ask = await startAsking()
  expect(await ask(`${line}\n${hello}${line}\n\n${stop}${done}`)).toBe('hello')
})

it.each([
  'error: boom',
  'exception: boom',
  'failure: {"a":1}',
  'meta: {"error":"boom"}',
  'upstream connect error or disconnect/reset before headers: boom',
  'http://example.org/boom',
])('the line %s reports a failure', async (line) => {
  const ask = await startAsking()
  expect(await ask(`${hello}${line}\n\n${stop}${done}`)).toMatch(/^policy_stream_error: /)
})

it.each([
  'stop',
  'length',
  'content_filter',
  'eos_token',
  'end_turn',
  'STOP',
  'max_tokens',
  'stop_sequence',
  'model_length',
])('the finish reason %s ends an answer well', async (reason) => {
  const ask = await startAsking()
  expect(await ask(hello + data(chunk({}, reason)) + done)).toBe('hello')
})

it.each([
  ['an empty event', 'data: \n\n'],
  ['an event without data', 'data\n\n'],
  ['a comment', ': keep-alive\n\n'],
  ['a named event', 'event: ping\ndata: {"t":1}\n\n'],
  ['a heartbeat', 'event: heartbeat\ndata: still here\n\n'],
  ['a ping', 'data: {"type":"ping"}\n\n'],
  ['an empty object', 'data: {}\n\n'],
  ['usage alone', data({ usage })],
  ['filter results', data({ object: '', choices: [], prompt_filter_results: [{}] })],
  ['a code of success', data({ code: 0, message: 'Success', ...chunk({}) })],
  ['a status of success', data({ base_resp: { status_code: 0 }, ...chunk({}) })],
  ['no error', data({ error: null, errors: [], ...chunk({}) })],
])('%s between the pieces does not fail it', async (_what, event) => {
  const ask = await startAsking()
  expect(await ask(event + hello + event + stop + event + done)).toBe('hello')
})

it.each([
  'application/json',
  'Application/JSON; charset=utf-8',
  'TEXT/EVENT-STREAM',
  'text/plain',
  '',
])('events under the content type "%s" are read', async (contentType) => {
  const ask = await startAsking()
  expect(await ask(`\n\n${hello}${stop}${done}`, { contentType })).toBe('hello')
})

it('a finish reason before the text ends the answer at [DONE] only', async () => {
  const ask = await startAsking()
  const first = data(chunk({ role: 'assistant' }, 'stop'))
  expect(await ask(first + hello + done)).toBe('hello')
  expect(await ask(first)).toBe('')
  expect(await ask(first + hello)).toMatch(/^policy_stream_error: /)
  expect(await ask(first + hello, { isReset: true })).toMatch(/^policy_stream_error: /)
  expect(await ask(hello + stop + hello + done)).toMatch(/second answer/)
})

it('an object under the content type of events is read', async () => {
  const ask = await startAsking()
  const whole = { choices: [{ index: 0, message: { content: 'hello' }, finish_reason: 'stop' }] }
  expect(await ask(`\n ${JSON.stringify(whole)}\n`)).toBe('hello')
})

it('a reset behind the finish reason does not fail it, and before it is one', async () => {
  const ask = await startAsking()
  const whole = hello + stop
  await fc.assert(
    fc.asyncProperty(failures, async ({ at }) => {
      const rest = data({ choices: [], usage }) + done
      const behind = whole + rest.slice(0, Math.floor(at * rest.length))
      expect(await ask(behind, { isReset: true })).toBe('hello')
      const before = whole.slice(0, Math.floor(at * (whole.length - 3)))
      expect(await ask(before, { isReset: true })).toMatch(/^policy_stream_error: /)
    }),
    { numRuns: runs(30) },
  )
})

it.each([
  ['another name for a message', { choices: [{ index: 0, text: 'hello', finish_reason: 'stop' }] }],
  [
    'another API',
    { choices: [{ index: 0, delta: { output_text: 'hello' }, finish_reason: 'stop' }] },
  ],
  ['the old form of calls', chunk({ function_call: { name: 'f', arguments: '{}' } }, 'stop')],
])('an answer in the fields of %s is an error, not an empty text', async (_what, said) => {
  const ask = await startAsking()
  expect(await ask(data(said) + done)).toMatch(/^policy_stream_error: /)
})

it('a stream that calls the delta `message` is read', async () => {
  const ask = await startAsking()
  const said = { choices: [{ index: 0, message: { content: 'hello' }, finish_reason: 'stop' }] }
  expect(await ask(data(said) + done)).toBe('hello')
  expect(await ask(eventStream(said))).toBe('hello')
})

it('a whole message behind its deltas is not said twice', async () => {
  const ask = await startAsking()
  const last = { choices: [{ index: 0, message: { content: 'hello' }, finish_reason: 'stop' }] }
  expect(await ask(hello + data(last))).toBe('hello')
  const opening = data(chunk({ role: 'assistant', content: '' }))
  expect(await ask(opening + data(last))).toBe('hello')
})
