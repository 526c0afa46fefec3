import type { ExecutionBackend } from '@osmosis/core'
import { createRolloutServer, serve, silentLogger } from '@osmosis/server'
import { FakeOsmosis, type FakeModel, type TrainedCall, type TrainingRow } from '@osmosis/testing'

/** A trainer with everything between it and the rollouts of a backend. */
export interface TrainerUnderTest extends AsyncDisposable {
  /** Runs each row so many times, as a group, and resolves when all rollouts have ended. */
  runBatch(rows: readonly TrainingRow[], attempts: number): Promise<unknown>
  /** What it would have trained so far. */
  trained(): readonly TrainedCall[]
}

/** Opens a trainer whose model calls `model` answers, and whose rollouts `backend` executes. */
export type OpenTrainer = (model: FakeModel, backend: ExecutionBackend) => Promise<TrainerUnderTest>

/** Osmosis, with rewards in callbacks or under leases. `fillWith`: see `FakeOsmosis`. */
export function osmosis(
  rewards: 'callbacks' | 'leases',
  fillWith: number | null = null,
): OpenTrainer {
  return async (model, backend) => {
    const server = createRolloutServer({ backend, logger: silentLogger, trajectories: false })
    const listening = await serve(server, { port: 0, host: '127.0.0.1' })
    const fake = await FakeOsmosis.start({ model, server: listening, rewards, fillWith })
    return {
      runBatch: async (rows, attempts) => fake.runBatch(rows, attempts),
      trained: () => fake.trained(),
      async [Symbol.asyncDispose]() {
        await fake.close()
        await listening.close()
      },
    }
  }
}
