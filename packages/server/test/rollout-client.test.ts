import { setTimeout as sleep } from 'node:timers/promises'

import { createRolloutClient, type LeasedOrder } from '@osmosis/controller'
import type { AgentWorkflowContext } from '@osmosis/core'
import { FakeController, LossyProxy, temporaryFolder } from '../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import {
  askPolicy,
  graderOf,
  startServer,
  workflowOf,
  type RunningServer,
} from './running-server.ts'
import { startChild } from './start-child.ts'

const leases = { waitSeconds: 0.3, leaseSeconds: 60 }

/** A request whose model calls go to the policy of a running server's test. */
function orderFor(
  { controller }: Pick<RunningServer, 'controller'>,
  order: Partial<LeasedOrder> = {},
): LeasedOrder {
  return {
    initialMessages: [{ role: 'user', content: 'Is it?' }],
    label: 'yes',
    chatCompletionsUrl: `${controller.url}/v1`,
    llmApiKey: 'policy-key',
    ...order,
  }
}

/** Never resolves; the signal ends it. */
async function aborted({ signal }: Pick<AgentWorkflowContext, 'signal'>): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}

const hangsIn = ({ metadata }: Pick<AgentWorkflowContext, 'metadata'>): unknown =>
  metadata?.['hangs']
const hanging = {
  workflow: workflowOf(async (ctx) => {
    await askPolicy(ctx)
    if (hangsIn(ctx) === 'running') await aborted(ctx)
  }),
  grader: graderOf(async (ctx) => {
    if (hangsIn(ctx) === 'grading') await aborted(ctx)
    ctx.setReward(1)
  }),
}

describe('the rollout client, at a server of ours', () => {
  it('gets a graded conversation without any callback', async () => {
    await using running = await startServer({ leases, apiKey: 'server-key' })
    await using client = createRolloutClient({ baseUrl: running.url, apiKey: 'server-key' })
    const rollout = await client.run(orderFor(running))
    expect(await rollout.waitFor('completed')).toStrictEqual({
      rolloutId: rollout.rolloutId,
      status: 'success',
      sample: {
        messages: [
          { role: 'user', content: 'Is it?' },
          { role: 'assistant', content: 'yes' },
        ],
        label: null,
        reward: 1,
        removeSample: false,
        metrics: expect.any(Object) as object,
        extraFields: expect.any(Object) as object,
      },
      errorMessage: null,
      errorCategory: null,
    })
    expect(running.controller.policyHeaders[0]).toMatchObject({
      authorization: 'Bearer policy-key',
      'x-rollout-id': rollout.rolloutId,
    })
    expect(running.controller.callbacks).toStrictEqual([])
  })

  it('is refused with a wrong key and with an id that is in use', async () => {
    await using running = await startServer({ leases, apiKey: 'server-key' })
    await using stranger = createRolloutClient({ baseUrl: running.url, apiKey: 'guessed' })
    await using client = createRolloutClient({ baseUrl: running.url, apiKey: 'server-key' })
    const order = orderFor(running, { rolloutId: 'r1' })
    await expect(stranger.run(order)).rejects.toMatchObject({ code: 'unauthorized' })
    const rollout = await client.run(order)
    await expect(client.run(order)).rejects.toMatchObject({ code: 'protocol_error', status: 409 })
    expect(await rollout.waitFor('completed')).toMatchObject({ status: 'success' })
  })

  it('waits for room at a full server', async () => {
    await using running = await startServer({
      ...hanging,
      leases,
      maxConcurrent: 1,
      maxQueueDepth: 1,
    })
    await using client = createRolloutClient({ baseUrl: running.url })
    const first = await client.run(orderFor(running, { metadata: { hangs: 'running' } }))
    await first.waitFor('running')
    await client.run(orderFor(running))
    await expect(
      client.run(orderFor(running), { admissionTimeoutSeconds: 0.1 }),
    ).rejects.toMatchObject({ code: 'timeout' })
    const second = client.run(orderFor(running))
    await first.cancelAtServer()
    expect(await (await second).waitFor('completed')).toMatchObject({ status: 'success' })
  }, 20_000)

  it('lets a rollout lapse that it no longer follows', async () => {
    const shortLease = { waitSeconds: 0.1, leaseSeconds: 0.3 }
    await using running = await startServer({ ...hanging, leases: shortLease })
    await using client = createRolloutClient({ baseUrl: running.url })
    const rollout = await client.run(orderFor(running, { metadata: { hangs: 'running' } }))
    await rollout.waitFor('running')
    rollout.stopFollowing()
    await client.waitIdle({ timeoutSeconds: 20 })
    expect(running.log.map(({ message }) => message)).toContain('polling lease expired')
  }, 30_000)

  it('drains, and still gets what is left', async () => {
    await using running = await startServer({ ...hanging, leases })
    await using client = createRolloutClient({ baseUrl: running.url })
    const rollout = await client.run(orderFor(running, { metadata: { hangs: 'grading' } }))
    await rollout.waitFor('grading')
    const left = await client.drain({ timeoutSeconds: 0 })
    expect(left).toMatchObject({
      drained: false,
      activeRollouts: 1,
      rolloutIds: [rollout.rolloutId],
    })
    await expect(client.run(orderFor(running))).rejects.toMatchObject({ status: 503 })
    await rollout.cancelAtServer()
    expect(await rollout.waitFor('completed')).toMatchObject({ status: 'cancelled' })
    const { processId } = left
    expect(await client.waitIdle({ processId })).toStrictEqual({
      acceptingRollouts: false,
      processId,
    })
  })

  it('notices that the server was restarted', async () => {
    await using before = await startChild()
    await using after = await startServer()
    await using proxy = await new LossyProxy(before.url).start()
    await using client = createRolloutClient({ baseUrl: proxy.url })
    const rollout = await client.run(orderFor(before, { metadata: { never: true } }))
    await rollout.waitFor('running')
    const looked = Promise.withResolvers<void>()
    proxy.onAnswer = ({ url }) => void (url === '/health' && looked.resolve())
    const idle = client.waitIdle()
    const ended = rollout.waitFor('completed')
    await looked.promise
    proxy.target = after.url
    before.kill('SIGKILL')
    await Promise.all([
      expect(ended).rejects.toMatchObject({ code: 'protocol_error', status: 404 }),
      expect(idle).rejects.toThrow('The rollout server was restarted'),
    ])
  })

  it('gets every end from a server with an outbox that is down for a while', async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const before = await startChild({ outboxDir, controller })
    await using proxy = await new LossyProxy(before.url).start()
    // Of one rollout no answer arrives, so that its result is still to be fetched after the restart.
    let isLost = true
    proxy.fault = ({ url }) => (isLost && url?.endsWith('/result') ? 'answer' : undefined)
    await using client = createRolloutClient({ baseUrl: before.url })
    await using unheard = createRolloutClient({ baseUrl: proxy.url })
    const order = (metadata: Record<string, unknown>): LeasedOrder =>
      orderFor({ controller }, { metadata })
    const running = await client.run(order({ never: true }))
    const grading = await client.run(order({ never: true, in: 'grader' }))
    await Promise.all([running.waitFor('running'), grading.waitFor('grading')])
    const ended = await unheard.run(order({}))
    const status = async (): Promise<unknown> =>
      (await fetch(`${before.url}/rollout/${ended.rolloutId}/status`)).json()
    await expect.poll(status).toMatchObject({ status: 'success' })

    await before.end()
    // Polls fail meanwhile.
    await sleep(1000)
    isLost = false
    await using _ = await startServer({
      outboxDir,
      controller,
      port: Number(new URL(before.url).port),
    })
    const restarted = /^the rollout server restarted while the rollout was (running|being graded); /
    for (const rollout of [running, grading]) {
      expect(await rollout.waitFor('completed')).toMatchObject({
        status: 'failure',
        errorMessage: expect.stringMatching(restarted),
      })
    }
    expect(await ended.waitFor('completed')).toMatchObject({
      status: 'success',
      sample: { reward: 1 },
    })
  })
})
