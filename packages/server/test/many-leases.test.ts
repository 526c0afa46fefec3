// @module-tag slow
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerResponse } from 'node:http'

import type { AgentWorkflowContext } from '@osmosis/core'
import {
  HttpPeer,
  LeaseClient,
  type LeaseHandle,
  type PeerRequest,
  type PolledResult,
} from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { askPolicy, graderOf, startServer, workflowOf } from './running-server.ts'

/** A policy that never answers. */
class SilentPolicy extends HttpPeer {
  open = 0

  protected override receive(_: PeerRequest, response: ServerResponse): void {
    this.open += 1
    response.on('close', () => {
      this.open -= 1
      this.wake()
    })
    this.wake()
  }
}

type Fate = 'success' | 'failure' | 'lapse' | 'cancel at once' | 'cancel running' | 'cancel grading'
const rareFates: Fate[] = ['failure', 'cancel at once', 'cancel running', 'cancel grading']
const expectedEnds: Record<Fate, string[]> = {
  success: ['success null'],
  failure: ['failure agent_error'],
  lapse: ['failure lease_expired'],
  'cancel at once': ['cancelled null'],
  'cancel running': ['cancelled null'],
  'cancel grading': ['cancelled null'],
}

it('gives each of 150 rollouts one end, whatever polls fail, are missing, or follow a cancel', async () => {
  await using silent = await new SilentPolicy().start()
  let going = 0
  const fateOf = ({ metadata }: Pick<AgentWorkflowContext, 'metadata'>): unknown =>
    metadata?.['fate']
  await using running = await startServer({
    maxConcurrent: 16,
    leases: { waitSeconds: 0.2, leaseSeconds: 15, retentionSeconds: 20 },
    workflow: workflowOf(async (ctx) => {
      going += 1
      try {
        await askPolicy(ctx)
        if (fateOf(ctx) === 'failure') throw new Error(`failed ${ctx.rolloutId}`)
      } finally {
        going -= 1
      }
    }),
    grader: graderOf(async (ctx) => {
      going += 1
      try {
        if (fateOf(ctx) === 'cancel grading') await aborted(ctx.signal)
        ctx.setReward(1)
      } finally {
        going -= 1
      }
    }),
  })
  const { controller, url } = running
  let polls = 0
  const client = new LeaseClient({
    url,
    marginSeconds: 1,
    fault: (failures) => {
      polls += 1
      // After a third failure in a row a caller gives up, and its rollout lapses.
      if (polls % 10 !== 0 || failures === 2) return undefined
      return polls % 20 === 0 ? 'lost' : 'unsent'
    },
  })

  async function drive(fate: Fate, index: number): Promise<PolledResult> {
    const rollout_id = `r${index}`
    // Those that do not end by themselves hang in a call of the policy, or in their grader.
    const hangs = fate === 'cancel at once' || fate === 'cancel running' || fate === 'lapse'
    const body = controller.rolloutBody({
      rollout_id,
      metadata: { fate },
      completion_callback_url: undefined,
      ...(hangs ? { chat_completions_url: `${silent.url}/v1` } : {}),
    })
    const handle = await client.start(body)
    if (fate === 'cancel at once') await client.cancel({ ids: [rollout_id] })
    if (fate === 'cancel running') await cancelIn('running', handle)
    if (fate === 'cancel grading') await cancelIn('grading', handle)
    if (fate === 'lapse') await sleep(handle.accepted.polling_lease_timeout_sec * 1000 + 10)
    const result = fate === 'lapse' ? await handle.once() : await handle.until()
    const again = await Promise.all([handle.read(), handle.read()])
    for (const answer of again) expect(await answer.text()).toBe(result.text)
    return result
  }

  async function cancelIn(phase: string, handle: LeaseHandle): Promise<void> {
    await handle.until((status) => status === phase)
    await client.cancel({ ids: [handle.accepted.rollout_id] })
  }

  // Lapses take longest, so they begin first.
  const fates = Array.from({ length: 150 }, (_, index): Fate => {
    if (index < 8) return 'lapse'
    return index % 4 === 3 ? (rareFates[((index - 3) / 4) % 4] ?? 'success') : 'success'
  })
  const ends = new Map<Fate, Set<string>>()
  const waiting = fates.entries()
  const driveNext = async (): Promise<void> => {
    for (const [index, fate] of waiting) {
      const { status, err_category, sample } = await drive(fate, index)
      ends.set(fate, (ends.get(fate) ?? new Set()).add(`${status} ${err_category}`))
      expect(sample?.reward ?? null).toBe(fate === 'success' ? 1 : null)
    }
  }
  await Promise.all(Array.from({ length: 24 }, driveNext))

  const seen = Object.fromEntries([...ends].map(([fate, set]) => [fate, [...set]]))
  expect(seen).toStrictEqual(expectedEnds)
  expect(polls).toBeGreaterThan(150)
  expect(controller.callbacks).toStrictEqual([])
  const soon = { interval: 100 }
  await expect
    .poll(() => [going, silent.open, controller.openPolicyCalls], soon)
    .toStrictEqual([0, 0, 0])
  await expect
    .poll(async () => (await fetch(`${url}/health`)).json(), soon)
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
