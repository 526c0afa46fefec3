import { scriptedPolicy, upstreamPolicy, watchPolicy, type PolicyModel } from '@osmosis/controller'
import { expect, it } from 'vitest'

function answering(status: number, text: string): PolicyModel {
  const headers = { 'content-type': 'text/x-words', 'retry-after': '7' }
  return { name: 'p', respond: async () => new Response(text, { status, headers }) }
}

async function ask(policy: PolicyModel): Promise<Response> {
  const { signal } = new AbortController()
  return policy.respond({
    rolloutId: 'r',
    sampleId: '',
    body: { messages: [] },
    headers: {},
    signal,
  })
}

it.each([401, 402, 403, 404])('%i is the end of it, and passed on as it is', async (status) => {
  const watched = watchPolicy(answering(status, 'not you'))
  expect([watched.name, watched.failure]).toEqual(['p', null])
  const answer = await ask(watched)
  expect([answer.status, await answer.text()]).toEqual([status, 'not you'])
  expect(Object.fromEntries(answer.headers)).toEqual({
    'content-type': 'text/x-words',
    'retry-after': '7',
  })
  expect(watched.failure).toBe(`The policy answered ${status}: not you`)
})

it('a 403 for one prompt fails that call alone', async () => {
  let harmless = 0
  const watched = watchPolicy({
    name: 'p',
    respond: async ({ body }) => {
      if (!JSON.stringify(body).includes('Say ok.')) return new Response('flagged', { status: 403 })
      harmless += 1
      return new Response('no such parameter', { status: 400 })
    },
  })
  const answers = await Promise.all([ask(watched), ask(watched)])
  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['flagged', 'flagged'])
  expect([watched.failure, harmless]).toEqual([null, 1])
})

it('a quota that is used up is the end of it, although the status is that of a rate limit', async () => {
  const text = '{"error":{"message":"Add credits.","code":"insufficient_quota"}}'
  const watched = watchPolicy(answering(429, text))
  expect(await (await ask(watched)).text()).toBe(text)
  expect(watched.failure).toBe(`The policy answered 429: ${text}`)
})

it('an endpoint where no server listens is a lasting failure', async () => {
  await using upstream = upstreamPolicy({ baseUrl: 'http://127.0.0.1:1/v1', model: 'm' })
  const watched = watchPolicy(upstream)
  expect((await ask(watched)).status).toBe(502)
  expect(watched.failure).toMatch(/^The policy at http:\/\/127\.0\.0\.1:1\/v1 cannot be reached: /)
})

it.each([200, 400, 422, 429, 500, 502, 503])('%i may pass', async (status) => {
  const watched = watchPolicy(answering(status, 'null'))
  expect(await (await ask(watched)).text()).toBe('null')
  expect(watched.failure).toBe(null)
})

it('a request that has no JSON text is an error of its own, and says nothing about the endpoint', async () => {
  await using upstream = upstreamPolicy({ baseUrl: 'http://127.0.0.1:1/v1', model: 'm' })
  const watched = watchPolicy(upstream)
  let deep: unknown[] = []
  for (let depth = 0; depth < 50_000; depth++) deep = [deep]
  const { signal } = new AbortController()
  const request = { rolloutId: 'r', sampleId: '', body: { messages: deep }, headers: {}, signal }
  await expect(watched.respond(request)).rejects.toThrow(RangeError)
  expect(watched.failure).toBe(null)
})

it('an answer does not take back a failure, and the first one stays', async () => {
  const answers = [answering(404, 'first'), answering(401, 'second'), scriptedPolicy(() => 'ok')]
  const watched = watchPolicy({
    name: 'p',
    respond: async (request) => (answers.shift() as PolicyModel).respond(request),
  })
  for (const status of [404, 401, 200]) expect((await ask(watched)).status).toBe(status)
  expect(watched.failure).toBe('The policy answered 404: first')
})
