import { createTrainer, scriptedPolicy, type Trainer } from '@osmosis/controller'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { announce } from './announced-request.ts'
import { callTrainer, completed, startLoopServer, type FakeLoopServer } from './fake-loop-server.ts'

let server: FakeLoopServer
let trainer: Trainer
let running: Promise<unknown>

beforeAll(async () => {
  server = await startLoopServer()
  const policy = scriptedPolicy(() => 'ok')
  trainer = await createTrainer({ policy, server, apiKey: 'sesame' })
  running = trainer.run({ rolloutId: 'r', messages: [] })
  await server.init(0)
})

afterAll(async () => {
  await completed(await server.init(0))
  await running
  await trainer.close()
  await server[Symbol.asyncDispose]()
})

describe.each(['/v1/chat/completions', '/v1/rollout/completed'])('%s', (route) => {
  const post = async (
    body: string | Uint8Array<ArrayBuffer>,
    key = 'sesame',
  ): Promise<[number, string]> => {
    const answer = await callTrainer({ server_url: trainer.url, api_key: key }, route, body)
    return [answer.status, await answer.text()]
  }

  it.each(['', 'sesam', 'sesame2'])('refuses the key %j before anything else', async (key) => {
    expect((await post('no json', key))[0]).toBe(401)
  })

  it('refuses a body that is not JSON', async () => {
    expect(await post('{"rollout_id"')).toEqual([400, expect.stringContaining('not JSON')])
  })

  it('refuses a body that is not UTF-8', async () => {
    const bytes = Buffer.from('{"rollout_id":"r\xff"}', 'latin1')
    expect(await post(bytes)).toEqual([422, expect.stringContaining('not UTF-8')])
  })

  it('refuses a body of more than 256 MiB before it comes', async () => {
    const length = 256 * 1024 * 1024 + 1
    expect(await announce(trainer.url + route, 'sesame', length)).toBe(413)
  })

  it('reads a body that comes in pieces', async () => {
    const pieces = new Blob(['{"rollout_id":"stranger","messages":[],', '"final_messages":[]', ''])
    const rest = new Blob([',"status":"ERROR"}'])
    const body = new Blob([pieces, rest]).stream()
    const headers = { authorization: 'Bearer sesame' }
    const init = { method: 'POST', headers, body, duplex: 'half' } as const
    expect((await fetch(trainer.url + route, init)).status).toBe(404)
  })

  it.each([
    'null',
    '[]',
    '"text"',
    '{}',
    '{"rollout_id":7,"messages":[],"final_messages":[],"status":"ERROR"}',
    '{"rollout_id":"r","messages":"hi","final_messages":"hi","status":"ERROR"}',
    '{"rollout_id":"r","messages":[1],"final_messages":[],"status":"planted"}',
  ])('refuses %s with 422, without repeating it', async (body) => {
    const [status, text] = await post(body)
    expect([status, text.includes('planted')]).toEqual([422, false])
  })

  it.each(['stranger', '../r', 'R'])('does not know the rollout %j', async (rolloutId) => {
    const body = { rollout_id: rolloutId, messages: [], final_messages: [], status: 'COMPLETED' }
    expect((await post(JSON.stringify(body)))[0]).toBe(404)
  })
})

it('answers health checks without a key, and 404 elsewhere', async () => {
  const answers = [await fetch(`${trainer.url}/health`), await fetch(`${trainer.url}/v1/models`)]
  expect(await Promise.all(answers.map(async (a) => [a.status, await a.json()]))).toEqual([
    [200, { status: 'ok' }],
    [404, { detail: 'Not Found' }],
  ])
})

it.each([
  ['', 'apiKey must not be empty. Omit it for a random one.'],
  ['two words', /^apiKey must be visible ASCII characters without spaces/],
])('a trainer does not open with the key %j', async (apiKey, message) => {
  const opening = createTrainer({ policy: scriptedPolicy(() => 'ok'), apiKey })
  await expect(opening).rejects.toThrow(message)
  await expect(opening).rejects.toMatchObject({ code: 'invalid_config' })
})
