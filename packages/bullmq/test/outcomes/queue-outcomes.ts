import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { createQueueServer, openQueue } from '@osmosis/bullmq'
import { serve } from '@osmosis/server'
import { afterAll, expect } from 'vitest'

import {
  FakeController,
  post,
  startRedis,
  startServerProcess,
  withPrograms,
} from '../../../../test/kit/index.ts'
import {
  deliveries,
  onlySample,
  outcomeCases,
  type OutcomeCase,
} from '../../../../test/kit/outcomes/index.ts'

const { describe, it } = withPrograms('redis-server')

/** A queue of one entrypoint: two servers in this process, and a worker process. */
interface Served {
  readonly first: string
  readonly second: string
}

const script = new URL('./outcome-worker.ts', import.meta.url)
const served = new Map<string, Promise<Served>>()
const ends: (() => Promise<void>)[] = []

afterAll(async () => {
  for (const end of ends.toReversed()) await end()
})

async function start(entrypoint: string): Promise<Served> {
  const keep = (end: () => Promise<void>): void => void ends.push(end)
  const ARTIFACT_ROOT = await mkdtemp(path.join(tmpdir(), 'osmosis-outcomes-'))
  keep(async () => rm(ARTIFACT_ROOT, { recursive: true, maxRetries: 3 }))
  const redis = await startRedis({ keep })
  const env = { REDIS_URL: redis.url, ENTRYPOINT: entrypoint, ARTIFACT_ROOT }
  await startServerProcess(script, env, keep)
  const startServer = async (): Promise<string> => {
    const queue = await openQueue({ url: redis.url })
    const server = createQueueServer({
      queue,
      code: entrypoint,
      logger: false,
      drainSeconds: 0,
      shutdownGraceSeconds: 0.1,
      callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
    })
    const listening = await serve(server, { port: 0, handleSignals: false })
    keep(async () => {
      await listening.close()
      await queue.close()
    })
    return listening.url
  }
  return { first: await startServer(), second: await startServer() }
}

/** An exiting server changes nothing for callers, so a queue has no such row. */
export const rowsOfQueue = outcomeCases.filter(
  ({ meanwhile = 'cancelled', endsProcess }) => meanwhile === 'cancelled' && !endsProcess,
)

/** Tests that callers of a queue receive the outcomes of these rows. */
export function testOutcomes(rows: readonly OutcomeCase[]): void {
  describe.each(Object.entries(deliveries))('through %s, with a queue', (name, delivery) => {
    const cases = rows.map((row, index) => ({
      ...row,
      id: `${row.idPrefix ?? index}-${name.replace(' ', '-')}`,
    }))

    it.each(cases)('delivers the outcome on any server: $situation', async (row) => {
      const { id, entrypoint = 'graded', meanwhile } = row
      const starting = served.get(entrypoint) ?? start(entrypoint)
      served.set(entrypoint, starting)
      const { first, second } = await starting
      await using controller = await new FakeController().start()
      controller.hanging = meanwhile !== undefined

      const fields = { rollout_id: id, metadata: row.does ?? null, ...row.request }
      const ended = await delivery.send(first, controller, fields)
      if (meanwhile) {
        await controller.until(() => controller.openPolicyCalls === 1)
        await post(`${second}/rollout/cancel`, { all: true })
      }
      expect(await ended(second)).toStrictEqual(delivery.expected(id, row))
      for (const url of [first, second]) {
        await expect
          .poll(async (): Promise<unknown> => (await fetch(`${url}/health`)).json())
          .toMatchObject({ undelivered: 0, lifecycle: { active_rollouts: 0 } })
      }
      const { status, err_message } = delivery.state(row)
      const sample = status === 'success' && row.grader ? onlySample(row.grader) : null
      for (const url of [first, second]) {
        expect(await (await fetch(`${url}/rollout/${id}/status`)).json()).toStrictEqual({
          rollout_id: id,
          status,
          reward: sample?.['reward'] ?? null,
          err_message,
        })
      }
      // No callback arrived after the outcome.
      expect(await ended(first)).toStrictEqual(delivery.expected(id, row))
    })
  })
}
