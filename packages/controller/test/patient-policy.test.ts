import { setTimeout as wait } from 'node:timers/promises'

import { patientPolicy, upstreamPolicy, watchPolicy, type PolicyModel } from '@osmosis/controller'
import { expect, it } from 'vitest'

import { restartingServer } from '../../../test/kit/restarting-server.ts'
import { startUpstream } from './fake-upstream.ts'

const { signal } = new AbortController()
const request = { rolloutId: 'r', sampleId: '', body: {}, headers: {}, signal }

/** Gives these answers one after the other, the last one for ever. */
function giving(answers: [status: number, headers?: Record<string, string>, text?: string][]): {
  policy: PolicyModel
  /** When each call came. Milliseconds. */
  calls: number[]
} {
  const calls: number[] = []
  return {
    calls,
    policy: {
      name: 'p',
      respond: async () => {
        calls.push(performance.now())
        const given = answers[Math.min(calls.length, answers.length) - 1] ?? [200]
        const [status, headers = {}, text = `${status}`] = given
        return new Response(text, { status, headers })
      },
    },
  }
}

it('a call that is to wait is made again, and all others wait as long', async () => {
  const { policy, calls } = giving([[429, { 'retry-after-ms': '40' }], [200]])
  const patient = patientPolicy(policy)
  const first = patient.respond(request)
  await Promise.resolve()
  const answers = await Promise.all([first, patient.respond(request)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  const [start = 0, ...later] = calls
  for (const at of later) expect(at - start).toBeGreaterThanOrEqual(39)
})

it.each([
  [503, { 'retry-after': '0.001' }, 4],
  [500, { 'retry-after': '1' }, 1],
  [400, {}, 1],
])('%i with %j is passed on after %i calls', async (status, headers, count) => {
  const { policy, calls } = giving([[status, headers]])
  const answer = await patientPolicy(policy).respond(request)
  expect([answer.status, await answer.text(), calls.length]).toEqual([status, `${status}`, count])
})

/** What servers say while they load, from their sources and from one that was recorded. */
const loading = [
  '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}',
  '{"error":"Model gpt2 is currently loading","estimated_time":20.0}',
  'The model is still loading, try again later.',
]
it.each(loading)('waits while a server says %s, and no longer than it may', async (text) => {
  const loads: [number, Record<string, string>, string] = [503, {}, text]
  const ready = giving([loads, loads, loads, loads, loads, [200]])
  const answer = await patientPolicy(ready.policy, { firstPauseMs: 1 }).respond(request)
  expect([answer.status, ready.calls.length]).toEqual([200, 6])

  const never = giving([loads])
  const patient = patientPolicy(never.policy, { firstPauseMs: 1, awayMs: 30 })
  const refused = await patient.respond(request)
  const gone = `The policy answered 503: ${text}\nIt has been away for 0.03 seconds.`
  expect([refused.status, await refused.json()]).toMatchObject([
    424,
    { error: { message: gone, code: 'policy_unusable' } },
  ])
  expect(patient.failure).toBe(gone)
})

it.each([
  [503, 'overloaded'],
  [503, 'unloading the models'],
  [500, 'Loading model'],
])('passes %i with %j on at once', async (status, text) => {
  const { policy, calls } = giving([[status, {}, text]])
  const answer = await patientPolicy(policy).respond(request)
  expect([answer.status, await answer.text(), calls.length]).toEqual([status, text, 1])
})

it('the last refusal no longer asks to wait: that was done here', async () => {
  const headers = { 'retry-after': '1', 'retry-after-ms': '1', 'x-other': 'same' }
  const answer = await patientPolicy(giving([[503, headers]]).policy).respond(request)
  expect(Object.fromEntries(answer.headers)).toMatchObject({ 'x-other': 'same' })
  expect([answer.headers.get('retry-after'), answer.headers.get('retry-after-ms')]).toEqual([
    null,
    null,
  ])
})

it('retries a 429 without Retry-After, after longer and longer waits, until it is answered', async () => {
  const { policy, calls } = giving([[429], [429], [429], [429], [429], [429], [200]])
  const waits: number[] = []
  const patient = patientPolicy(policy, { firstPauseMs: 1, onWait: (ms) => waits.push(ms) })
  expect((await patient.respond(request)).status).toBe(200)
  expect([calls.length, patient.refusals, patient.failure]).toEqual([7, 6, null])
  for (const [tries, ms] of waits.entries()) {
    expect(ms).toBeGreaterThanOrEqual(2 ** tries / 2)
    expect(ms).toBeLessThanOrEqual(2 ** tries)
  }
})

it('an endpoint that answers nothing but 429 for too long fails, and calls wait no longer', async () => {
  const { policy, calls } = giving([[429, { 'retry-after-ms': '1' }]])
  const patient = patientPolicy(policy, { patienceMs: 1 })
  const answers = [await patient.respond(request), await patient.respond(request)]
  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['429', '429'])
  expect([calls.length, patient.failure]).toEqual([
    4,
    'The policy has answered nothing but 429 for 0 minutes: 429',
  ])
})

it('a quota that is used up is not waited for', async () => {
  let calls = 0
  const spent = patientPolicy({
    name: 'p',
    respond: async () => {
      calls += 1
      return Response.json({ error: { code: 'insufficient_quota' } }, { status: 429 })
    },
  })
  expect([(await spent.respond(request)).status, calls]).toEqual([429, 1])
})

it('what an endpoint wrote into an answer that asks to wait harms nothing', async () => {
  let calls = 0
  await using upstream = await startUpstream((outgoing) => {
    calls += 1
    outgoing.writeHead(calls === 1 ? 429 : 200, { 'retry-after-ms': '1' })
    outgoing.end(JSON.stringify({ said: calls }))
  })
  await using policy = upstreamPolicy({ baseUrl: upstream.url, model: 'm' })
  const answer = await patientPolicy(policy).respond(request)
  expect([answer.status, await answer.json()]).toEqual([200, { said: 2 }])
})

it('a call whose rollout ends does not wait on', async () => {
  const { policy } = giving([[429, { 'retry-after': '60' }]])
  const abort = new AbortController()
  const waiting = patientPolicy(policy).respond({ ...request, signal: abort.signal })
  abort.abort(new Error('over'))
  await expect(waiting).rejects.toThrow('over')
})

it('waits for an endpoint that restarts, whether it refuses or closes connections', async () => {
  let closes = 3
  const server = await restartingServer((_, response) => {
    if (closes-- > 0) response.socket?.destroy()
    else response.end('yes')
  })
  await using upstream = upstreamPolicy({ baseUrl: server.url, model: 'm' })
  const waits: number[] = []
  const patient = patientPolicy(upstream, {
    firstPauseMs: 10,
    onWait: (_, status) => waits.push(status),
  })
  const asked = patient.respond(request)
  setTimeout(() => void server.start(), 100)
  expect(await (await asked).text()).toBe('yes')
  expect(waits.length).toBeGreaterThan(3)
  expect([...new Set(waits)]).toEqual([502])
  expect(patient.failure).toBeNull()
})

it('a call that alone finds no connection for too long fails, and the policy has not', async () => {
  const gone = { error: { message: 'closed', code: 'policy_connection_lost' } }
  const patient = patientPolicy(
    {
      name: 'p',
      respond: async ({ rolloutId }) =>
        rolloutId === 'r' ? Response.json(gone, { status: 502 }) : new Response('yes'),
    },
    { firstPauseMs: 1, awayMs: 50 },
  )
  const over = new AbortController()
  const lost = patient.respond(request).finally(() => over.abort())
  while (!over.signal.aborted) {
    await patient.respond({ ...request, rolloutId: 'other' })
    await wait(1)
  }
  expect([(await lost).status, patient.failure]).toEqual([424, null])
})

it('an endpoint that was never reached is not waited for', async () => {
  await using upstream = upstreamPolicy({ baseUrl: 'http://127.0.0.1:1/v1', model: 'm' })
  const watched = watchPolicy(upstream, { isAwaited: true })
  const patient = patientPolicy(watched, { watched })
  expect((await patient.respond(request)).status).toBe(502)
  expect(patient.failure).toMatch(/^The policy at http:\/\/127\.0\.0\.1:1\/v1 cannot be reached: /)
})
