import { createRolloutServer, serve } from '@osmosis/server'
import { FakeController, metricsIn, post, recordingLogger } from '@osmosis/testing/kit'
import { expect, it, vi } from 'vitest'

import { openPool } from './pool-under-test.ts'

it('the figures of a server know of model calls in its workers, and of workers that ended', async () => {
  await using controller = await new FakeController().start()
  const { pool } = await openPool({ workers: 1 })
  const server = createRolloutServer({ backend: pool, logger: recordingLogger([]) })
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const run = async (rollout_id: string, does: string): Promise<void> => {
    const known = controller.callbacks.length
    const initial_messages = [{ role: 'user', content: does }]
    await post(`${listening.url}/rollout`, controller.rolloutBody({ rollout_id, initial_messages }))
    await controller.until(() => controller.callbacks.length === known + 2)
  }
  await run('asks', 'ask ask')
  await run('fails', 'ask throw')
  await run('crashes', 'ask segfault')

  await vi.waitFor(async () => {
    const text = await (await fetch(`${listening.url}/metrics`)).text()
    const all = metricsIn(text)
    const ended = (outcome: string, phase: string): number | undefined =>
      all.get(
        `osmosis_rollouts_ended_total{outcome="${outcome}",category="${outcome === 'success' ? 'none' : 'agent_error'}",phase="${phase}"}`,
      )
    expect({
      calls: all.get('osmosis_policy_calls_total{outcome="stop"}'),
      good: ended('success', 'grading'),
      failed: ended('failure', 'workflow'),
      workers: all.get('osmosis_workers'),
      crashes: all.get('osmosis_worker_restarts_total{reason="crash"}'),
      stalls: all.get('osmosis_worker_restarts_total{reason="stall"}'),
    }).toStrictEqual({ calls: 3, good: 1, failed: 2, workers: 1, crashes: 1, stalls: 0 })
  })
})

it('the figures of a server have the memory and the CPU time of its workers, also of ended ones', async () => {
  await using controller = await new FakeController().start()
  const { pool } = await openPool({ workers: 2, stallTimeoutSeconds: 2 })
  const server = createRolloutServer({ backend: pool, logger: recordingLogger([]) })
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const figure = async (name: string): Promise<number> => {
    const text = await (await fetch(`${listening.url}/metrics`)).text()
    return metricsIn(text).get(name) ?? Number.NaN
  }
  await vi.waitFor(async () => {
    // Two processes of Node.js that have loaded the SDK.
    expect(await figure('osmosis_worker_resident_memory_bytes')).toBeGreaterThan(60 * 2 ** 20)
    expect(await figure('osmosis_worker_cpu_seconds_total')).toBeGreaterThan(0.1)
  }, 10_000)

  const before = await figure('osmosis_worker_cpu_seconds_total')
  const initial_messages = [{ role: 'user', content: 'ask segfault' }]
  await post(`${listening.url}/rollout`, controller.rolloutBody({ initial_messages }))
  await controller.until(() => controller.callbacks.length === 2)
  expect(await figure('osmosis_worker_cpu_seconds_total')).toBeGreaterThanOrEqual(before)
})
