import { setTimeout as sleep } from 'node:timers/promises'

import { errorMessage } from '@osmosis/core'
import { expect, it, onTestFinished, vi } from 'vitest'

import { FakeTinker, type TinkerAnswer } from '../../../../test/kit/index.ts'
import { TinkerClient } from '../../src/tinker/service/tinker-client.ts'

const key = 'tml-0123456789'

async function opened(
  options: { readonly wire?: 'json' | 'protobuf'; readonly patienceMs?: number } = {},
): Promise<{ service: FakeTinker; client: TinkerClient; modelId: string }> {
  const service = await new FakeTinker().start()
  const client = new TinkerClient({ url: `${service.url}/`, apiKey: key, ...options })
  onTestFinished(async () => {
    await client.close()
    await service[Symbol.asyncDispose]()
  })
  const { session_id: id } = await client.post('create_session', { tags: [] })
  const made = await client.call('create_model', { session_id: id, base_model: 'm' })
  service.requests.length = 0
  return { service, client, modelId: String(made['model_id']) }
}

/** Routes in the order of their requests. */
function routes({ requests }: FakeTinker): string[] {
  return requests.map(({ route }) => route)
}

const notReady = Array.from({ length: 9 }, () => ({ body: { type: 'try_again' } }))
const soon = { headers: { 'retry-after-ms': '5' } }

it.each<[string, TinkerAnswer]>([
  ['408', { status: 408, body: { detail: 'Timeout waiting for result' } }],
  ['try_again', { body: { type: 'try_again', queue_state: 'active' } }],
])('fetches a future again that is not ready: %s', async (_, answer) => {
  const { service, client, modelId } = await opened()
  service.next('retrieve_future', answer, answer)
  const saved = await client.call('save_weights', { model_id: modelId, seq_id: 1, path: 'a' })
  expect(saved).toEqual({ path: `tinker://${modelId}/weights/a` })
  expect(routes(service)).toEqual(['save_weights', ...Array(3).fill('retrieve_future')])
})

it.each<[string, TinkerAnswer, string, number]>([
  [
    'hosted',
    { body: { error: 'bad loss_fn', category: 'user' } },
    'optim_step failed on the Tinker service: bad loss_fn',
    400,
  ],
  [
    'hosted, by its own fault',
    { body: { error: 'out of memory', category: 'server' } },
    'optim_step failed on the Tinker service: out of memory',
    500,
  ],
  [
    'Open-RL',
    { status: 400, body: { type: 'RequestFailedResponse', error_message: 'no adapter' } },
    'The Tinker service answered 400 to optim_step: no adapter',
    400,
  ],
  [
    'SkyRL',
    { status: 422, body: { detail: [{ loc: ['body', 'seq_id'], msg: 'Input should be valid' }] } },
    'The Tinker service answered 422 to optim_step: [{"loc":["body","seq_id"],"msg":"Input should be valid"}]',
    422,
  ],
  [
    'unknown future',
    { status: 404, body: { detail: 'Future not found' } },
    'The Tinker service answered 404 to optim_step: Future not found',
    404,
  ],
])('reports a future that failed: %s', async (_, answer, message, status) => {
  const { service, client, modelId } = await opened()
  service.next('retrieve_future', answer)
  await expect(client.call('optim_step', { model_id: modelId, seq_id: 1 })).rejects.toMatchObject({
    code: 'learner_error',
    message,
    status,
  })
  expect(routes(service)).toEqual(['optim_step', 'retrieve_future'])
})

it('sends the original request again when the service lost its result', async () => {
  const { service, client, modelId } = await opened()
  service.next('retrieve_future', { status: 410, body: { detail: 'gone' } })
  await client.call('optim_step', { model_id: modelId, seq_id: 1, adam_params: {} })
  expect(routes(service)).toEqual([
    'optim_step',
    'retrieve_future',
    'optim_step',
    'retrieve_future',
  ])
  expect(service.requests[2]?.body).toEqual(service.requests[0]?.body)
})

it('gives up a result that does not come within its patience', async () => {
  const { service, client, modelId } = await opened({ patienceMs: 120 })
  service.next('retrieve_future', ...notReady)
  await expect(client.call('optim_step', { model_id: modelId, seq_id: 1 })).rejects.toMatchObject({
    code: 'learner_error',
    message: expect.stringContaining('has not finished optim_step (request 2) in 0.002 minutes'),
  })
})

it('does not count a change of the clock of this machine as patience', async () => {
  const { service, client, modelId } = await opened()
  service.next('retrieve_future', ...notReady.slice(0, 2))
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const saving = client.call('save_weights', { model_id: modelId, seq_id: 1, path: 'a' })
  await service.until(() => routes(service).includes('retrieve_future'))
  vi.setSystemTime(Date.now() + 3_600_000)
  expect(await saving).toEqual({ path: `tinker://${modelId}/weights/a` })
})

it.each([429, 503, 425])('waits as long as a %d says', async (status) => {
  const { service, client, modelId } = await opened()
  service.next('optim_step', { status, ...soon }, { status, headers: { 'retry-after': '0' } })
  await client.call('optim_step', { model_id: modelId, seq_id: 1, adam_params: {} })
  expect(routes(service)).toEqual([...Array(3).fill('optim_step'), 'retrieve_future'])
})

it('does not send a request again at once that is to wait for longer than a timer of Node.js can', async () => {
  const { service, client } = await opened()
  const headers = { 'retry-after': String(30 * 24 * 3600) }
  service.next('optim_step', ...Array.from({ length: 9 }, () => ({ status: 429, headers })))
  const abort = new AbortController()
  const { signal } = abort
  const waiting = client.post('optim_step', {}, { signal }).catch(errorMessage)
  await service.until(() => routes(service).includes('optim_step'))
  await sleep(200)
  abort.abort(new Error('enough'))
  expect(await waiting).toBe('enough')
  expect(routes(service)).toEqual(['optim_step'])
})

it.each([
  [402, 'learner_error', 'Its account has no credit left: add some and continue.'],
  [401, 'unauthorized', 'The Tinker service refuses the key (401)'],
  [403, 'unauthorized', 'The Tinker service refuses the key (403)'],
  [400, 'learner_error', 'answered 400 to optim_step'],
])('stops at once after a %d', async (status, code, message) => {
  const { service, client } = await opened()
  service.next('optim_step', { status, body: { detail: `no, ${key}` } })
  const error: unknown = await client.post('optim_step', {}).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code, status, message: expect.stringContaining(message) })
  expect(JSON.stringify(error) + String(error)).not.toContain(key)
  expect(String(error)).toContain('no, [the key]')
  expect(routes(service)).toEqual(['optim_step'])
})

it('sends the same request again after a lost answer, which the service recognises by its seq_id', async () => {
  const { service, client, modelId } = await opened()
  service.next('optim_step', 'lost')
  service.next('retrieve_future', 'lost')
  const body = { model_id: modelId, seq_id: 1, adam_params: {} }
  await client.call('optim_step', body)
  expect(routes(service)).toEqual([
    'optim_step',
    'optim_step',
    'retrieve_future',
    'retrieve_future',
  ])
  // Another body with that number is an error, and is not repeated.
  await expect(client.call('save_weights', { ...body, path: 'x' })).rejects.toMatchObject({
    status: 409,
    message:
      'The Tinker service answered 409 to save_weights: Training request sequence number was reused',
  })
})

it('reports a server that is not a Tinker service', async () => {
  const { service, client } = await opened()
  service.next('create_session', {
    bytes: Buffer.from('<html>'),
    headers: { 'content-type': 'text/html' },
  })
  await expect(client.post('create_session', {})).rejects.toThrow(
    'The answer to create_session is not that of a Tinker service: it is not text/html. Check the URL.',
  )
  service.next('optim_step', { body: {} })
  await expect(client.call('optim_step', {})).rejects.toThrow('it has no request_id')
  for (const login of ['', 'http://user:pass#@']) {
    expect(() => new TinkerClient({ url: `${login}tinker.example` })).toThrow(
      '"tinker.example" is not the URL of a Tinker service. Write it like http://127.0.0.1:8000.',
    )
  }
})

it('breaks off what is in progress when it is closed', async () => {
  const { service, client } = await opened()
  service.next('session_heartbeat', { status: 429, headers: { 'retry-after': '60' } })
  const waiting = client.post('session_heartbeat', {}).catch(errorMessage)
  await service.until(() => routes(service).includes('session_heartbeat'))
  await client.close()
  expect(await waiting).toBe('The Tinker client is closed.')
})

it('gives up a request with its signal', async () => {
  const { service, client, modelId } = await opened()
  const abort = new AbortController()
  service.next('retrieve_future', ...notReady)
  const body = { model_id: modelId, seq_id: 1 }
  const { signal } = abort
  const waiting = client.call('optim_step', body, { signal }).catch(errorMessage)
  await service.until(() => routes(service).includes('retrieve_future'))
  abort.abort(new Error('enough'))
  expect(await waiting).toBe('enough')
})
