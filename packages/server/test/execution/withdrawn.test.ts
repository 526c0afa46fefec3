import { requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import { LocalBackend, runToEnd } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  request,
  workflow,
} from '../../../../test/kit/executed-rollouts.ts'
import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]
const own = { wire: { ownRoute: true } }

/** Answers the first call, says to the next one that the route does not exist, and does not answer others. */
async function startWithdrawing(status: number): Promise<TestPolicyEndpoint> {
  return startPolicyEndpoint((response, n) => {
    if (n === 1) sendStream(response, answerStream('a1'))
    else if (n === 4) sendJson(response, status, { error: { message: 'no such rollout' } })
  })
}

function backendOf(body: (ctx: AgentWorkflowContext) => unknown): LocalBackend {
  return new LocalBackend({
    workflow: workflow(body),
    grader: grader((ctx) => ctx.setReward(1)),
  })
}

async function ask(): Promise<unknown> {
  return requireRolloutContext('test').policy('main').complete({ messages })
}

describe('a missing policy route that belongs to one rollout', () => {
  it.each([404, 410])('with %d ends the rollout as cancelled by the trainer', async (status) => {
    const policy = await startWithdrawing(status)
    const ended: unknown[] = []
    const backend = backendOf(async ({ signal }) => {
      registerSamples('main')
      await ask()
      const parallel = await Promise.allSettled([ask(), ask(), ask()])
      for (const call of parallel) ended.push((call as PromiseRejectedResult).reason)
      ended.push(signal.reason)
      // The rollout has ended, whatever user code does with the error.
    })
    const asked = request({ chatCompletionsUrl: policy.url, ...own })
    expect(await runToEnd(backend, asked)).toEqual({
      kind: 'cancelled',
      by: 'trainer',
      message: `The trainer withdrew the rollout: its own policy route answered ${status}: no such rollout`,
    })
    expect(backend.status('r')).toMatchObject({ status: 'cancelled', reward: null })
    await Promise.all(policy.requests.map(async ({ closed }) => closed))
    expect(ended).toMatchObject(Array.from({ length: 4 }, () => ({ code: 'withdrawn', status })))
    expect(policy.requests).toHaveLength(4)
  })
})

it('a missing policy route that rollouts share is reported as a wrong address', async () => {
  const policy = await startPolicyEndpoint((response) => sendJson(response, 404, {}))
  const backend = backendOf(ask)
  const end = await runToEnd(backend, request({ chatCompletionsUrl: policy.url }))
  expect(end).toMatchObject({
    kind: 'failed',
    category: 'http_error',
    message: expect.stringContaining('answered 404'),
  })
})
