// @module-tag slow
import { createRolloutClient, type RolloutHandle } from '@osmosis/controller'
import type { AgentWorkflowContext } from '@osmosis/core'
import { LossyProxy } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { askPolicy, graderOf, startServer, workflowOf } from './running-server.ts'

type Fate = 'none' | 'queued' | 'running' | 'grading' | 'lapse'
const fatesInTurn: Fate[] = ['none', 'queued', 'running', 'grading']
const expectedEnds: Record<Fate, string[]> = {
  none: ['success null'],
  queued: ['cancelled null'],
  running: ['cancelled null'],
  grading: ['cancelled null'],
  lapse: ['failure lease_expired'],
}

it('the rollout client drives 150 rollouts to one end each, with every tenth poll lost, cancels in every phase and lapses', async () => {
  let going = 0
  /** Hangs where the rollout is to be cancelled, until its signal ends it. */
  const hang = async (ctx: Pick<AgentWorkflowContext, 'metadata' | 'signal'>, phase: string) => {
    if (ctx.metadata?.['hangs'] !== phase) return
    going += 1
    try {
      await aborted(ctx.signal)
    } finally {
      going -= 1
    }
  }
  await using running = await startServer({
    maxConcurrent: 16,
    // Shorter leases leave the client no time to ask again after a loss: it may have to wait 10 s.
    leases: { waitSeconds: 0.2, leaseSeconds: 15, retentionSeconds: 20 },
    workflow: workflowOf(async (ctx) => {
      await askPolicy(ctx)
      await hang(ctx, 'running')
    }),
    grader: graderOf(async (ctx) => {
      await hang(ctx, 'grading')
      ctx.setReward(1)
    }),
  })
  await using proxy = await new LossyProxy(running.url).start()
  await using client = createRolloutClient({ baseUrl: proxy.url })
  let polls = 0
  const losses = new Map<string, number>()
  const leases = new Map<string, string>()
  proxy.fault = ({ method, url = '', headers }) => {
    if (method !== 'GET' || !url.endsWith('/result')) return undefined
    leases.set(url, String(headers['x-osmosis-rollout-lease']))
    polls += 1
    const before = losses.get(url) ?? 0
    // After a third loss in a row the client stops following, as it should.
    const isLost = polls % 10 === 0 && before < 2
    losses.set(url, isLost ? before + 1 : 0)
    if (!isLost) return undefined
    return polls % 20 === 0 ? 'request' : 'answer'
  }

  /** Reads a result as often as it likes, past the proxy: the same bytes each time. */
  async function readAgain({ rolloutId }: RolloutHandle): Promise<Record<string, unknown>> {
    const route = `/rollout/${rolloutId}/result`
    const read = async (): Promise<string> => {
      const headers = { 'x-osmosis-rollout-lease': leases.get(route) ?? '' }
      return (await fetch(running.url + route, { headers })).text()
    }
    const [first, ...others] = await Promise.all([read(), read(), read()])
    expect(others).toStrictEqual([first, first])
    return JSON.parse(first) as Record<string, unknown>
  }

  const ends = new Map<Fate, Set<string>>()
  async function drive(fate: Fate): Promise<void> {
    const rollout = await client.run({
      initialMessages: [{ role: 'user', content: 'Is it?' }],
      label: 'yes',
      metadata: { hangs: fate === 'queued' || fate === 'lapse' ? 'running' : fate },
      chatCompletionsUrl: `${running.controller.url}/v1`,
      llmApiKey: 'policy-key',
    })
    if (fate === 'lapse') await lapse(rollout)
    else {
      if (fate === 'running' || fate === 'grading') await rollout.waitFor(fate)
      if (fate !== 'none') await cancel(rollout)
      await rollout.waitFor('completed')
    }
    const { status, err_category } = await readAgain(rollout)
    // A client that stopped following does not know the end.
    expect(rollout.status).toBe(fate === 'lapse' ? 'running' : status)
    ends.set(fate, (ends.get(fate) ?? new Set()).add(`${String(status)} ${String(err_category)}`))
  }

  /** A busy machine may take longer to answer than the client waits. */
  async function cancel(rollout: RolloutHandle): Promise<void> {
    await expect
      .poll(async () => rollout.cancelAtServer().then(() => 'answered', String))
      .toBe('answered')
  }

  /** Stops following, and resolves when the lease is over; asking the server would renew it. */
  async function lapse(rollout: RolloutHandle): Promise<void> {
    await rollout.waitFor('running')
    rollout.stopFollowing()
    const lapsed = (): unknown[] =>
      running.log.flatMap(({ message, fields }) =>
        message === 'polling lease expired' ? [fields?.['rollout_id']] : [],
      )
    await expect.poll(lapsed, { interval: 200 }).toContain(rollout.rolloutId)
  }

  // Lapses take longest, so they begin first.
  const fates = Array.from({ length: 150 }, (_, index): Fate =>
    index < 6 ? 'lapse' : (fatesInTurn[index % 4] ?? 'none'),
  ).values()
  const driveNext = async (): Promise<void> => {
    for (const fate of fates) await drive(fate)
  }
  await Promise.all(Array.from({ length: 24 }, driveNext))

  const seen = Object.fromEntries([...ends].map(([fate, set]) => [fate, [...set]]))
  expect(seen).toStrictEqual(expectedEnds)
  expect(polls).toBeGreaterThan(150)
  expect(await client.waitIdle()).toMatchObject({ acceptingRollouts: true })
  expect([going, running.controller.openPolicyCalls]).toStrictEqual([0, 0])
  await expect
    .poll(async () => (await fetch(`${running.url}/health`)).json(), { interval: 100 })
    .toMatchObject({
      concurrency: { queued: 0, running: 0 },
      retained_results: 0,
      lifecycle: { active_rollouts: 0 },
    })
})

/** Never resolves; the signal ends it. */
async function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
