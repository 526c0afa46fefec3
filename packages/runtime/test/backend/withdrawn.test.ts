import { LocalBackend, runToEnd } from '@osmosis/runtime'
import { requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
} from '@osmosis/testing/kit'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  request,
  run,
  workflow,
} from '@osmosis/testing/kit/executed-rollouts'

const messages = [{ role: 'user', content: 'hi' }]
const own = { wire: { ownRoute: true } }

/** Answers once, and says to the next call that the route is gone; others it leaves waiting. */
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

describe('a policy route of its own that is gone', () => {
  it.each([404, 410])('with %d ends the rollout as cancelled by the trainer', async (status) => {
    const policy = await startWithdrawing(status)
    const ended: unknown[] = []
    const backend = backendOf(async ({ signal }) => {
      registerSamples('main')
      await ask()
      const parallel = await Promise.allSettled([ask(), ask(), ask()])
      for (const call of parallel) ended.push((call as PromiseRejectedResult).reason)
      ended.push(signal.reason)
      // Whatever user code makes of it, the rollout is over.
    })
    const asked = request({ chatCompletionsUrl: policy.url, ...own })
    expect(await runToEnd(backend, asked)).toEqual({
      kind: 'cancelled',
      by: 'trainer',
      message: `The trainer withdrew the rollout: its own policy route answered ${status}.`,
    })
    expect(backend.status('r')).toMatchObject({ status: 'cancelled', reward: null })
    await Promise.all(policy.requests.map(async ({ closed }) => closed))
    expect(ended).toMatchObject(Array.from({ length: 4 }, () => ({ code: 'withdrawn', status })))
    expect(policy.requests).toHaveLength(4)
  })

  it('fails the workflow with what the trainer meant', async () => {
    const policy = await startPolicyEndpoint((response) =>
      response.writeHead(404, { 'x-should-retry': 'true' }).end(),
    )
    const { completion } = await run(backendOf(ask), { chatCompletionsUrl: policy.url, ...own })
    expect(completion).toMatchObject({
      status: 'failure',
      failure: { category: 'agent_error', cause: { code: 'withdrawn', status: 404 } },
    })
    expect(policy.requests).toHaveLength(1)
  })
})

it('a policy route that others share is a wrong address when it is not there', async () => {
  const policy = await startPolicyEndpoint((response) => sendJson(response, 404, {}))
  const backend = backendOf(ask)
  const end = await runToEnd(backend, request({ chatCompletionsUrl: policy.url }))
  expect(end).toMatchObject({
    kind: 'failed',
    category: 'http_error',
    message: expect.stringContaining('answered 404'),
  })
})
