import {
  agentLightning,
  runTrainerWorker,
  type AgentLightningOptions,
  type WorkerSummary,
} from '@osmosis/trainer-links'
import { onTestFinished } from 'vitest'

import { recordingLogger, type LogLine } from '../../../test/kit/index.ts'
import {
  FakeAgentLightning,
  type QueuedRollout,
  type TrainerFaults,
} from '../../../test/kit/trainers/index.ts'
import { model, type PlannedAgent } from './planned-agent.ts'

/** The key of every gateway in these tests. */
export const apiKey = 'gateway-key'

/** A gateway with rollouts in its queue. */
export interface Gateway {
  readonly fake: FakeAgentLightning
  readonly ids: readonly string[]
}

/** Starts a gateway with these rollouts, which ends with the test. */
export async function gateway(
  rollouts: readonly QueuedRollout[],
  options: { faults?: TrainerFaults; model?: typeof model } = {},
): Promise<Gateway> {
  const fake = await FakeAgentLightning.start({ model, apiKey, ...options })
  onTestFinished(async () => fake.close())
  return { fake, ids: fake.enqueue(rollouts) }
}

/** A worker in this process. */
export interface Worker {
  readonly done: Promise<WorkerSummary>
  readonly log: LogLine[]
  /** Stops it, and resolves when it has ended. */
  stop(): Promise<WorkerSummary>
}

/** Starts a worker that looks for rollouts often. It ends with the test. */
export function startWorker(
  fake: FakeAgentLightning,
  agent: Pick<PlannedAgent, 'backend'>,
  options: Partial<AgentLightningOptions> & { concurrency?: number; drainSeconds?: number } = {},
): Worker {
  const { concurrency = 32, drainSeconds = 0, ...rest } = options
  const log: LogLine[] = []
  const logger = recordingLogger(log)
  const link = agentLightning({
    url: fake.url,
    apiKey,
    lookSeconds: 0.02,
    watchSeconds: 0.05,
    logger,
    ...rest,
  })
  const ending = new AbortController()
  const { signal } = ending
  const { backend } = agent
  const done = runTrainerWorker({ backend, link, concurrency, signal, drainSeconds, logger })
  done.catch(() => {})
  const stop = async (): Promise<WorkerSummary> => {
    ending.abort()
    return done
  }
  onTestFinished(async () => {
    await stop().catch(() => {})
    await link[Symbol.asyncDispose]()
  })
  return { done, log, stop }
}

/** Rewards of the calls that would be trained, by rollout. */
export function trainedRewards(fake: FakeAgentLightning): Record<string, number[]> {
  const rewards: Record<string, number[]> = {}
  for (const { rolloutId, reward } of fake.trained()) (rewards[rolloutId] ??= []).push(reward)
  return rewards
}
