import path from 'node:path'

import {
  reportOf,
  type ExecutionBackend,
  type GradingOutcome,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutRequest,
  type WorkflowOutcome,
} from '@osmosis/protocol'
import {
  createWorkerPool,
  type WorkerEnd,
  type WorkerPoolBackend,
  type WorkerPoolOptions,
} from '@osmosis/server/child'
import { startPolicyServer, type PolicyScript, type PolicyServer } from '@osmosis/testing'
import { afterAll, expect, onTestFinished } from 'vitest'

const harmfulWorker = path.join(import.meta.dirname, 'harmful-worker.ts')

/** A pool of {@link harmfulWorker} and how its workers ended. */
export interface PoolUnderTest {
  readonly pool: WorkerPoolBackend
  readonly ends: WorkerEnd[]
}

/** A pool for one test, by default with one worker. */
export async function openPool(options: Partial<WorkerPoolOptions> = {}): Promise<PoolUnderTest> {
  const opened = await startPool(options)
  onTestFinished(async () => opened.pool.close())
  return opened
}

/**
 * A pool that the tests of a file share, because starting processes is slow. The result lists the workers
 * that have ended since the call.
 */
export function sharedPool(options: Partial<WorkerPoolOptions> = {}): () => Promise<PoolUnderTest> {
  let opening: Promise<PoolUnderTest> | undefined
  afterAll(async () => {
    await (await opening)?.pool.close()
  })
  return async () => {
    opening ??= startPool(options)
    const { ends } = await opening
    ends.length = 0
    return opening
  }
}

async function startPool(options: Partial<WorkerPoolOptions>): Promise<PoolUnderTest> {
  const ends: WorkerEnd[] = []
  const pool = await createWorkerPool({
    module: harmfulWorker,
    execArgv: [],
    workers: 1,
    onWorkerEnd: (end) => void ends.push(end),
    ...options,
  })
  return { pool, ends }
}

/** A policy that answers everything by default. */
export async function openPolicy(script: PolicyScript = () => 'yes'): Promise<PolicyServer> {
  const policy = await startPolicyServer(script)
  onTestFinished(async () => policy.close())
  return policy
}

export interface Ended {
  readonly completion: WorkflowOutcome
  readonly grading: GradingOutcome | undefined
  /** The process that ran the workflow. */
  readonly pid: number
}

let rollouts = 0

/** @param onEvent - awaited for each event, before the next one is asked for */
export async function runRollout(
  backend: ExecutionBackend,
  does: string,
  overrides: Partial<RolloutRequest> = {},
  gates: ModelCallGates = {},
  onEvent?: (event: RolloutEvent) => void | Promise<void>,
): Promise<Ended> {
  rollouts += 1
  const events = backend.execute(
    {
      rolloutId: `rollout-${rollouts}`,
      initialMessages: [{ role: 'user', content: does }],
      label: 'nothing',
      metadata: null,
      chatCompletionsUrl: 'http://127.0.0.1:9/v1',
      apiKey: undefined,
      agentTimeoutSeconds: null,
      graderTimeoutSeconds: null,
      grade: true,
      ...overrides,
    },
    gates,
  )
  const { workflow: completion, grading } = await reportOf(events, onEvent)
  const [sample] = grading?.samples.values() ?? []
  const { content = '' } = (sample?.messages[0] ?? {}) as { content?: string }
  return { completion, grading, pid: Number(content.replace('pid ', '')) }
}

/** Expects that a rollout has failed after it ended two workers, and that the third one runs other rollouts. */
export async function endTwoWorkers(
  { pool, ends }: PoolUnderTest,
  harm: string,
): Promise<string | undefined> {
  const { completion, grading } = await runRollout(pool, harm)
  expect(completion.failure?.message).toMatch(
    /; it is the second worker that was lost while it executed this rollout$/,
  )
  expect(completion.failure).toMatchObject({
    category: 'agent_error',
    cause: { code: 'worker_lost' },
  })
  expect(grading).toBeUndefined()
  expect(ends).toHaveLength(2)
  expect((await runRollout(pool, 'nothing')).grading?.status).toBe('success')
  return completion.failure?.message
}
