import { createRolloutServer, serve } from '@osmosis/server'
import { expect, it, vi } from 'vitest'

import { FakeController, metricsIn, post, recordingLogger } from '../../../../test/kit/index.ts'
import { sharedPool } from './pool-under-test.ts'

const provider = new URL('./registered-provider.ts', import.meta.url).href
const shared = sharedPool({ execArgv: ['--import', provider] })

it(
  'the metrics of a server include model calls in its workers, ended workers, and their resources',
  { tags: 'slow' },
  async () => {
    await using controller = await new FakeController().start()
    const { pool } = await shared()
    const server = createRolloutServer({
      backend: pool,
      trajectories: false,
      logger: recordingLogger([]),
    })
    await using listening = await serve(server, { port: 0, handleSignals: false })
    const figure = async (name: string): Promise<number> => {
      const text = await (await fetch(`${listening.url}/metrics`)).text()
      return metricsIn(text).get(name) ?? Number.NaN
    }
    // The size of a Node.js process that has loaded the SDK.
    await expect
      .poll(async () => figure('osmosis_worker_resident_memory_bytes'))
      .toBeGreaterThan(30 * 2 ** 20)
    const run = async (rollout_id: string, does: string): Promise<void> => {
      const known = controller.callbacks.length
      const initial_messages = [{ role: 'user', content: does }]
      await post(
        `${listening.url}/rollout`,
        controller.rolloutBody({ rollout_id, initial_messages }),
      )
      await controller.until(() => controller.callbacks.length === known + 2)
    }
    await run('asks', 'ask ask')
    await run('fails', 'ask throw')
    await expect.poll(async () => figure('osmosis_worker_cpu_seconds_total')).toBeGreaterThan(0.1)
    const before = await figure('osmosis_worker_cpu_seconds_total')
    await run('crashes', 'ask segfault')
    expect(await figure('osmosis_worker_cpu_seconds_total')).toBeGreaterThanOrEqual(before)

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
    }, 60_000)
  },
)

it('the trace of a request continues in the model calls that a worker makes', async () => {
  await using controller = await new FakeController().start()
  const { pool } = await shared()
  const server = createRolloutServer({
    backend: pool,
    trajectories: false,
    logger: recordingLogger([]),
  })
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const body = controller.rolloutBody({ initial_messages: [{ role: 'user', content: 'ask' }] })
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  await post(`${listening.url}/rollout`, body, { traceparent })
  await controller.bodies()

  const [headers] = controller.policyHeaders
  expect(headers?.['traceparent']).toMatch(/^00-a{32}-[0-9a-f]{16}-01$/)
  expect(headers?.['traceparent']).not.toBe(traceparent)
})
