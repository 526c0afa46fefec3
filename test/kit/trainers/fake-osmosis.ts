import {
  createController,
  createPolicyEndpoint,
  createRolloutClient,
  type PolicyModel,
  type RolloutOrder,
  type ServerAddress,
} from '@osmosis/controller'
import { answerOf } from '@osmosis/controller/answers'
import type { ChatCompletionRequest } from '@osmosis/core/policy'

import { recordedTokens, type FakeModel, type TrainedCall } from './trained-call.ts'

/** A row of a dataset, as a training cluster sends it. */
export type TrainingRow = Pick<RolloutOrder, 'initialMessages' | 'label' | 'metadata'>

/** Options of {@link FakeOsmosis}. */
export interface FakeOsmosisOptions {
  /** Answers the model calls of all rollouts. */
  readonly model: FakeModel
  /** The rollout server to train with. */
  readonly server: ServerAddress
  /** Whether rewards come in callbacks, or are fetched under leases. */
  readonly rewards: 'callbacks' | 'leases'
  /**
   * The reward of model calls whose rollout has none. Default: null, they are not
   * trained. A number is what a trainer does that cannot tell a failure from a bad answer.
   */
  readonly fillWith?: number | null
}

/** How one rollout of a batch ended. */
export interface TrainingRollout {
  readonly rolloutId: string
  /** Answers of the policy. */
  readonly calls: number
  /** By sample id; under a lease the only one is `sample`. Empty unless the rollout was a success. */
  readonly rewards: ReadonlyMap<string, number>
  /** Null for a success. */
  readonly error: string | null
}

type RecordedCall = ReturnType<typeof recordedTokens> & { readonly sampleId: string }

/** Sends an order, and resolves with the end of its rollout. */
interface Delivery extends AsyncDisposable {
  run(order: RolloutOrder & { rolloutId: string }): Promise<Ending>
}

interface Ending {
  readonly error: string | null
  /** The key is null where the server does not say which sample it is. */
  readonly rewards: ReadonlyMap<string | null, number>
}

/**
 * An Osmosis training cluster for tests: it serves the policy, sends rollouts in groups, and reports what
 * it would train. That is what it recorded at its own endpoint, with the rewards that it received, and
 * nothing of a rollout that failed or whose samples were removed.
 */
export class FakeOsmosis implements AsyncDisposable {
  readonly #delivery: Delivery
  readonly #recorded: Map<string, RecordedCall[]>
  readonly #fillWith: number | null
  readonly #trained: TrainedCall[] = []
  #batches = 0

  private constructor(
    delivery: Delivery,
    recorded: Map<string, RecordedCall[]>,
    fillWith: number | null,
  ) {
    this.#delivery = delivery
    this.#recorded = recorded
    this.#fillWith = fillWith
  }

  /** Opens a cluster on 127.0.0.1; the caller closes it. */
  static async start(options: FakeOsmosisOptions): Promise<FakeOsmosis> {
    const recorded = new Map<string, RecordedCall[]>()
    const policy: PolicyModel = {
      name: 'fake-osmosis',
      async respond({ body, rolloutId, sampleId }) {
        const request = body as Record<string, unknown> & ChatCompletionRequest
        const answer = await options.model(request, rolloutId)
        const calls = recorded.get(rolloutId) ?? []
        recorded.set(rolloutId, calls)
        calls.push({ ...recordedTokens(answer), sampleId })
        return answerOf(answer, request)
      },
    }
    const open = options.rewards === 'callbacks' ? callbacks : leases
    return new FakeOsmosis(await open(policy, options.server), recorded, options.fillWith ?? null)
  }

  /**
   * Runs each row `attempts` times, all at once, and resolves when the last rollout has ended, in the order of
   * rows and attempts. The attempts of a row are a group. Rollout ids are counted, so the n-th batches
   * of two clusters have the same ids.
   */
  async runBatch(rows: readonly TrainingRow[], attempts: number): Promise<TrainingRollout[]> {
    this.#batches += 1
    const groups = rows.map((row, at) => ({ row, group: `${this.#batches}-${at + 1}` }))
    const rollouts = groups.flatMap(({ row, group }) =>
      Array.from({ length: attempts }, async (_, at) => this.#run(row, group, at + 1)),
    )
    return Promise.all(rollouts)
  }

  /** What it would have trained so far. */
  trained(): readonly TrainedCall[] {
    return [...this.#trained]
  }

  /** Cancels what is running and stops listening. Safe to call again. */
  async close(): Promise<void> {
    await this.#delivery[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #run(row: TrainingRow, group: string, attempt: number): Promise<TrainingRollout> {
    const rolloutId = `${group}-${attempt}`
    const { rewards, error } = await this.#delivery.run({ ...row, rolloutId })
    const calls = this.#recorded.get(rolloutId) ?? []
    this.#recorded.delete(rolloutId)
    for (const { sampleId, ...tokens } of calls) {
      const reward = rewards.get(sampleId) ?? rewards.get(null) ?? this.#fillWith
      if (reward !== null) this.#trained.push({ rolloutId, group, reward, ...tokens })
    }
    const named = new Map([...rewards].map(([id, reward]) => [id ?? 'sample', reward]))
    return { rolloutId, calls: calls.length, rewards: named, error }
  }
}

async function callbacks(policy: PolicyModel, server: ServerAddress): Promise<Delivery> {
  const controller = await createController({ policy, server })
  return {
    async run(order) {
      const { status, samples, errorMessage } = await controller.run(order)
      if (status !== 'success') return failed(errorMessage ?? status)
      return { error: null, rewards: new Map(given([...samples.values()])) }
    },
    [Symbol.asyncDispose]: async () => controller.close(),
  }
}

async function leases(policy: PolicyModel, server: ServerAddress): Promise<Delivery> {
  const endpoint = await createPolicyEndpoint({ policy })
  const { url: baseUrl, ...key } = server
  const client = createRolloutClient({ baseUrl, ...key })
  return {
    async run(order) {
      const access = endpoint.admit(order.rolloutId)
      try {
        const rollout = await client.run({ ...order, ...access })
        const { status, sample, errorMessage } = await rollout.waitFor('completed')
        if (status !== 'success') return failed(errorMessage ?? status)
        return { error: null, rewards: new Map(given(sample ? [{ ...sample, id: null }] : [])) }
      } finally {
        access.end()
      }
    },
    async [Symbol.asyncDispose]() {
      await client.close()
      await endpoint.close()
    },
  }
}

function given<Id>(samples: readonly { id: Id; reward: number | null }[]): [Id, number][] {
  return samples.flatMap(({ id, reward }) => (reward === null ? [] : [[id, reward]]))
}

function failed(error: string): Ending {
  return { error, rewards: new Map() }
}
