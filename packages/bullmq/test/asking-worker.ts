import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { startRolloutWorker, type RolloutWorkerOptions } from '@osmosis/bullmq'
import type { RolloutQueue } from '@osmosis/bullmq/records'
import type { RedisServer } from '../../../test/kit/index.ts'
import { onTestFinished } from 'vitest'

/** How long a worker may be silent. */
const lockDurationMs = 2_000

class Asks extends AgentWorkflow {
  async run(): Promise<void> {
    const context = requireRolloutContext('Asks')
    context.registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    await context.policy('main').complete({ messages: [{ role: 'user', content: 'go' }] })
  }
}

class One extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

/** A worker for rollouts that make one model call. */
export async function startWorker(
  { url }: RedisServer,
  options: Partial<RolloutWorkerOptions> = {},
): Promise<void> {
  const workflowConfig = defineWorkflowConfig({ name: 'asks' })
  const worker = await startRolloutWorker({
    url,
    backend: new LocalBackend({ workflow: Asks, workflowConfig, grader: One }),
    concurrency: 20,
    code: 'c1',
    lockDurationMs,
    stalledIntervalMs: 500,
    ...options,
  })
  onTestFinished(async () => worker.close())
}

/** Delivers each outcome once, as servers do. */
export function deliverInto(queue: RolloutQueue): string[] {
  const delivered: string[] = []
  queue.deliverResults(async (id) => {
    const record = await queue.record(id)
    if (record === undefined) return
    if (record.status === 'grading') await queue.records.allowGrading(id)
    else if (record.delivered.grader === undefined) {
      await queue.records.noteDelivered(id, 'grader', record.status)
      delivered.push(`${id} ${record.status}`)
    }
  }, 20)
  return delivered
}
