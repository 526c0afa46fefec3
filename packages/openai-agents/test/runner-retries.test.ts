import { type ModelSettings, retryPolicies, run } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { execute, isNewestVersion, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

/** Retries by the SDK's runner, of everything that it may. */
const eagerRetry: ModelSettings = {
  retry: { maxRetries: 2, backoff: { initialDelayMs: 1 }, policy: () => true },
}

async function ask(modelSettings: ModelSettings): Promise<unknown> {
  const session = new OsmosisMemorySession({ name: 'main' })
  return (await run(policyAgent({ modelSettings }), 'go', { session })).finalOutput
}

test('without retry settings the SDK adds no requests to those of the policy client', async () => {
  await using server = await startPolicyServer(() => fault.status(503))
  await expect(rolloutOn(server).run(async () => ask({}))).rejects.toMatchObject({ status: 503 })
  expect(server.requests).toHaveLength(3)
})

test('retry settings of the user are obeyed once the policy client has given up', async () => {
  await using server = await startPolicyServer([
    fault.status(422),
    fault.status(422),
    'third time lucky',
  ])
  const rollout = rolloutOn(server)
  expect(await rollout.run(async () => ask(eagerRetry))).toBe('third time lucky')
  expect((await sampleOf(rollout, 'main')).calls.map(({ error }) => error !== null)).toEqual([
    true,
    true,
    false,
  ])
})

test('the tries that the SDK adds on a retry policy of the user are one request each', async () => {
  await using server = await startPolicyServer(() => fault.status(503))
  const rollout = rolloutOn(server)
  await expect(rollout.run(async () => ask(eagerRetry))).rejects.toMatchObject({ status: 503 })
  expect((await sampleOf(rollout, 'main')).calls.map(({ attempts }) => attempts)).toEqual([3, 1, 1])
})

test('the statuses of a retry policy are those of the policy endpoint', async () => {
  await using server = await startPolicyServer([fault.status(422), 'second', fault.status(400)])
  const retry = {
    maxRetries: 1,
    backoff: { initialDelayMs: 1 },
    policy: retryPolicies.httpStatus([422]),
  }
  await rolloutOn(server).run(async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    const agent = policyAgent({ modelSettings: { retry } })
    expect((await run(agent, 'first', { session })).finalOutput).toBe('second')
    await expect(run(agent, 'second', { session })).rejects.toMatchObject({ status: 400 })
  })
  expect(server.requests).toHaveLength(3)
})

test('an answer that broke off is not asked again, whatever the retry settings', async () => {
  await using server = await startPolicyServer(() =>
    fault.on('an answer of several words', { cutAfterBytes: 700 }),
  )
  const cut = rolloutOn(server).run(async () => ask(eagerRetry))
  await expect(cut).rejects.toMatchObject({ code: 'policy_stream_error' })
  expect(server.requests).toHaveLength(1)
})

test('a mistake of usage is not tried again, whatever the retry settings', async () => {
  await using server = await startPolicyServer([])
  const attempts: unknown[] = []
  const retry = { ...eagerRetry.retry, policy: () => attempts.push('asked') > 0 }
  const withoutSession = rolloutOn(server).run(async () =>
    run(policyAgent({ modelSettings: { retry } }), 'go'),
  )
  await expect(withoutSession).rejects.toMatchObject({ code: 'missing_session' })
  expect(server.requests).toHaveLength(0)
  expect(attempts.length).toBeLessThanOrEqual(1)
})

test.runIf(isNewestVersion())(
  'timeoutMs of the model settings ends one call and its socket',
  async () => {
    await using server = await startPolicyServer(() => fault.hang('headers'))
    const { workflow } = await execute(server, async () => ask({ timeoutMs: 1000 }))
    expect(workflow.failure?.message).toMatch(/1000/)
    expect(await server.requests[0]?.closed).toBe(true)
  },
)
