import {
  type ExecutionBackend,
  createRolloutServer,
  serve,
  silentLogger,
  type ListeningServer,
} from '@osmosis/server'

import {
  FakeMiles,
  FakeOsmosis,
  type FakeModel,
  type MilesRollout,
  type TrainedCall,
  type TrainingRow,
} from '../kit/trainers/index.ts'
import { rows } from './door-rollouts.ts'

/** A trainer that is running, with everything between it and the rollouts of a backend. */
interface OpenTrainer extends AsyncDisposable {
  /** Runs each row `attempts` times, as a group, and resolves when all rollouts have ended. */
  runBatch(rows: readonly TrainingRow[], attempts: number): Promise<unknown>
  /** What it would have trained so far. */
  trained(): readonly TrainedCall[]
}

/** A way from rollouts to a trainer. */
export interface TrainerUnderTest {
  /** Opens a trainer whose model calls `model` answers, and whose rollouts `backend` executes. */
  open(model: FakeModel, backend: ExecutionBackend): Promise<OpenTrainer>
  /**
   * Converts the rollout id of the trainer to `<batch>-<row>-<attempt>`, each from 1, so that the policy gives a rollout
   * the same answers with every trainer. Default: the trainer uses these ids.
   */
  readonly nameOf?: (rolloutId: string) => string
}

/** Osmosis, with rewards in callbacks or under leases. `fillWith`: see `FakeOsmosis`. */
export function osmosis(
  rewards: 'callbacks' | 'leases',
  fillWith: number | null = null,
): TrainerUnderTest {
  return {
    async open(model, backend) {
      const server = await serveRollouts(backend)
      const fake = await FakeOsmosis.start({ model, server, rewards, fillWith })
      return {
        runBatch: async (batch, attempts) => fake.runBatch(batch, attempts),
        trained: () => fake.trained(),
        async [Symbol.asyncDispose]() {
          await fake.close()
          await server.close()
        },
      }
    },
  }
}

/** Miles, which trains everything that was recorded, with 0 without a reward. */
export const miles: TrainerUnderTest = {
  async open(model, backend) {
    const server = await serveRollouts(backend)
    const fake = await FakeMiles.start({ model })
    return {
      runBatch: async (batch, attempts) =>
        fake.generate(
          server.url,
          batch.map(({ initialMessages: messages, ...row }) => ({ messages, ...row })),
          { attempts },
        ),
      trained: () => fake.trained(),
      async [Symbol.asyncDispose]() {
        await fake.close()
        await server.close()
      },
    }
  },
  nameOf: milesName,
}

/** Miles counts its groups, one for each row in each batch. */
function milesName(sessionId: string): string {
  const [, group = '', attempt] = /^g(\d+)-(\d+)$/.exec(sessionId) ?? []
  const before = Number(group) - 1
  return `${Math.floor(before / rows.length) + 1}-${(before % rows.length) + 1}-${attempt}`
}

/** A trainer whose endpoint records nothing: it trains from the traces that `POST /run` answers with. */
export const traced: TrainerUnderTest = {
  async open(model, backend) {
    const server = await serveRollouts(backend)
    const fake = await FakeMiles.start({ model })
    return {
      runBatch: async (batch, attempts) =>
        fake.generate(
          server.url,
          batch.map(({ initialMessages: messages, ...row }) => ({ messages, ...row, trace: true })),
          { attempts },
        ),
      trained: () => fake.rollouts.flatMap(tracedCalls),
      async [Symbol.asyncDispose]() {
        await fake.close()
        await server.close()
      },
    }
  },
  nameOf: milesName,
}

function tracedCalls({ answer, group, sessionId: rolloutId }: MilesRollout): TrainedCall[] {
  return (answer?.trace ?? []).flatMap(({ reward, calls }) =>
    calls.map(({ prompt_token_ids, completion_token_ids, logprobs }) => ({
      rolloutId,
      group,
      reward,
      promptIds: prompt_token_ids ?? [],
      ids: completion_token_ids ?? [],
      logprobs: logprobs ?? [],
    })),
  )
}

async function serveRollouts(backend: ExecutionBackend): Promise<ListeningServer> {
  const options = { backend, logger: silentLogger, trajectories: false, run: true }
  return serve(createRolloutServer(options), { port: 0, host: '127.0.0.1' })
}
