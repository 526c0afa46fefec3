import { patientPolicy, upstreamPolicy, type PolicyModel } from '@osmosis/controller'
import { expect, it } from 'vitest'

import { startUpstream } from './fake-upstream.ts'

const { signal } = new AbortController()
const request = { rolloutId: 'r', sampleId: '', body: {}, headers: {}, signal }

/** Gives these answers one after the other, the last one for ever. */
function giving(answers: [status: number, headers?: Record<string, string>][]): {
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
        const [status, headers = {}] = answers[Math.min(calls.length, answers.length) - 1] ?? [200]
        return new Response(`${status}`, { status, headers })
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
  [429, {}, 1],
  [500, { 'retry-after': '1' }, 1],
  [400, {}, 1],
])('%i with %j is passed on after %i calls', async (status, headers, count) => {
  const { policy, calls } = giving([[status, headers]])
  const answer = await patientPolicy(policy).respond(request)
  expect([answer.status, await answer.text(), calls.length]).toEqual([status, `${status}`, count])
})

it('the last refusal no longer asks to wait: that was done here', async () => {
  const headers = { 'retry-after': '1', 'retry-after-ms': '1', 'x-other': 'kept' }
  const answer = await patientPolicy(giving([[429, headers]]).policy).respond(request)
  expect(Object.fromEntries(answer.headers)).toMatchObject({ 'x-other': 'kept' })
  expect([answer.headers.get('retry-after'), answer.headers.get('retry-after-ms')]).toEqual([
    null,
    null,
  ])
})

it('what an endpoint wrote into an answer that asks to wait harms nothing', async () => {
  let calls = 0
  await using upstream = await startUpstream((outgoing) => {
    calls += 1
    outgoing.writeHead(calls === 1 ? 429 : 200, { 'retry-after': '0.001' })
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
