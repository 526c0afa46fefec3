import { type Controller, createController, scriptedPolicy } from '@osmosis/controller'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

import { complete, type FakeRolloutServer, startRolloutServer } from './fake-rollout-server.ts'

let server: FakeRolloutServer
let controller: Controller
let running: Promise<unknown>

beforeAll(async () => {
  server = await startRolloutServer()
  controller = await createController({
    policy: scriptedPolicy(() => 'ok'),
    server: { url: server.url },
    callbackToken: 'sesame',
    policyToken: 'another-sesame',
  })
  running = controller.run({ rolloutId: 'a b%41?', initialMessages: [], grade: false })
  await server.order(0)
})

afterAll(async () => {
  await complete(await server.order(0))
  await running
  await controller.close()
  await server[Symbol.asyncDispose]()
})

describe.each(['completion', 'grader'])('the %s callback', (kind) => {
  it.each([
    ['no authorization', undefined],
    ['another token', 'Bearer sesam'],
    ['another scheme', 'Basic sesame'],
    ['nothing after the scheme', 'Bearer '],
    ['the policy token', 'Bearer $policy'],
  ])('is refused with %s before anything else is looked at', async (_what, authorization) => {
    const headers = authorization
      ? { authorization: authorization.replace('$policy', controller.policyToken) }
      : {}
    expect(await post(kind, 'stranger', 'no json', headers)).toStrictEqual([
      401,
      { detail: 'Unauthorized' },
    ])
  })

  it('is refused when it is not JSON', async () => {
    expect(await post(kind, 'stranger', '{"status"')).toStrictEqual([
      422,
      { detail: [{ type: 'json_invalid', loc: ['body'], msg: 'not JSON' }] },
    ])
  })

  const unfit = kind === 'grader' ? ['pending', 'cancelled', null] : ['pending', null]
  it.each(unfit)('is refused with the status %j', async (status) => {
    const [code, body] = await post(kind, 'stranger', JSON.stringify({ status, secret: 'planted' }))
    expect([code, body]).toStrictEqual([
      422,
      {
        detail: [
          {
            type: expect.any(String) as string,
            loc: ['body', 'status'],
            msg: expect.any(String) as string,
          },
        ],
      },
    ])
    expect(JSON.stringify(body).includes('planted')).toBe(false)
  })

  it.each(['null', '[]', '"text"'])('is refused when its body is %s', async (body) => {
    expect((await post(kind, 'stranger', body))[0]).toBe(422)
  })

  it('is refused when its id is not that of the path', async () => {
    const body = JSON.stringify({ rollout_id: 'other', status: 'success' })
    expect(await post(kind, 'a b%41?', body)).toStrictEqual([
      422,
      { detail: 'rollout_id mismatch' },
    ])
  })

  it.each(['stranger', 'a/b', '../a b%41?', 'a b%41', 'aA'])(
    'is refused for the id %j',
    async (id) => {
      expect(await post(kind, id, '{"status":"success"}')).toStrictEqual([
        404,
        { detail: 'unknown rollout_id' },
      ])
    },
  )
})

it('takes the bearer scheme in any case, and an id with odd characters', async () => {
  const body = JSON.stringify({ rollout_id: 'a b%41?', status: 'success', new_key: 1 })
  const answer = await post('completion', 'a b%41?', body, { authorization: 'bEARER sesame' })
  expect(answer).toStrictEqual([200, { ok: true }])
})

async function post(
  kind: string,
  rolloutId: string,
  body: string,
  headers: Record<string, string> = { authorization: 'Bearer sesame' },
): Promise<[number, unknown]> {
  const url = `${controller.url}/v1/rollouts/${encodeURIComponent(rolloutId)}/${kind}`
  const answer = await fetch(url, { method: 'POST', headers, body })
  return [answer.status, await answer.json()]
}
