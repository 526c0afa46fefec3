import type { QueueConnectionOptions } from '@osmosis/bullmq'
import { OsmosisError, toRolloutSample, type RolloutSample } from '@osmosis/core'
import type { GradingOutcome, RolloutRequest } from '@osmosis/protocol'
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'

import { startRedis, type RedisServer } from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import type { TakeAnswer, Taker } from '../src/records/queued-executions.ts'
import type { RolloutEntry } from '../src/records/rollout-record.ts'
import type { StoredWorkflow } from '../src/records/stored-outcomes.ts'

/** A queue with its own Redis. */
export async function openQueue(
  options: Partial<QueueConnectionOptions> = {},
): Promise<{ readonly queue: RolloutQueue; readonly redis: RedisServer }> {
  const redis = await startRedis()
  const queue = await RolloutQueue.open({ url: redis.url, ...options })
  onTestFinished(async () => queue.close())
  return { queue, redis }
}

/** A connection to inspect Redis. */
export function lookInto({ url }: RedisServer): Redis {
  const client = new Redis(url)
  // Tests kill it.
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

export const request: RolloutRequest = {
  rolloutId: 'r1',
  initialMessages: [{ role: 'user', content: 'hi' }],
  label: 'l',
  metadata: null,
  chatCompletionsUrl: 'http://127.0.0.1:9/v1',
  apiKey: 'policy-key',
  agentTimeoutSeconds: null,
  graderTimeoutSeconds: null,
  grade: true,
}

export function entry(overrides: Partial<RolloutEntry> = {}): RolloutEntry {
  const { id = 'r1' } = overrides
  return {
    id,
    kind: 'callbacks',
    digest: 'd1',
    answer: '{"accepted":true}',
    code: 'c1',
    request: { ...request, rolloutId: id },
    delivery: { url: 'http://127.0.0.1:9/callback' },
    ...overrides,
  }
}

let tokens = 0

export function taker(worker: string, overrides: Partial<Taker> = {}): Taker {
  tokens += 1
  return { worker, token: `t${tokens}`, code: 'c1', lockMs: 2_000, ...overrides }
}

/** The execution that was taken; otherwise the test fails. */
export function runOf(taken: TakeAnswer, id = 'r1'): { readonly id: string; readonly run: number } {
  if (taken.what !== 'run') throw new Error(`expected a run, got ${taken.what}`)
  return { id, run: taken.run }
}

export const succeeded = { status: 'success', failure: null, warnings: [] } as const

export function samples(reward: number | null = null): ReadonlyMap<string, RolloutSample> {
  const sample = toRolloutSample({ id: 'main', messages: [{ role: 'assistant', content: 'yes' }] })
  return new Map([['main', { ...sample, reward }]])
}

export const graded = { status: 'success', failure: null, samples: samples(1) } as const

export const lost = new OsmosisError('worker_lost', 'the worker was lost')

/** The outcome of the workflow in the record. */
export async function storedWorkflow(
  { records }: RolloutQueue,
  id: string,
): Promise<StoredWorkflow | undefined> {
  const read = await records.readWith(id, ['workflow', 'samples', 'partial'])
  return read?.more.workflow()
}

/** The outcome of the grading in the record. */
export async function storedGrading(
  { records }: RolloutQueue,
  id: string,
): Promise<GradingOutcome | undefined> {
  const read = await records.readWith(id, ['grading', 'samples'])
  return read?.more.grading(read.more.samples())
}
