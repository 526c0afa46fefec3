import { createHash } from 'node:crypto'

import {
  createController,
  createTrainer,
  recordPolicy,
  type PolicyModel,
  type RecordedPolicy,
  type RecordedTranscript,
  type RolloutRecording,
  type ServerAddress,
} from '@osmosis/controller'
import { loopRunner, workflowRunner, type ItemRunner } from '@osmosis/eval'

import type { OpenRollouts, RolloutSource, SampledCalls } from './rollout-source.ts'

/** Options of {@link servedRollouts}. */
export interface ServedRolloutsOptions {
  readonly server: ServerAddress
  /** What it serves. Default: a workflow. */
  readonly kind?: 'workflow' | 'agent-loop'
  /** Whether its grader grades the attempts at a row together. Default: false. */
  readonly gradesGroups?: boolean
  /** Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /**
   * Settings for the body of each model call, such as `temperature`; they override those of the agent, but for a smaller
   * `max_tokens`.
   */
  readonly sampling?: Readonly<Record<string, unknown>>
}

/** Rollouts that a rollout server runs. A controller of this process answers their model calls. */
export function servedRollouts(options: ServedRolloutsOptions): OpenRollouts {
  return async (policy) => {
    const seeds = new AnswerSeeds()
    const calls = new RecordedCalls(seeds.seeded(policy), options.sampling ?? {})
    const { runner, close } = await openDriver(options, calls.policy)
    return {
      runner: seeds.following(runner),
      close,
      startStep: (seed) => seeds.startStep(seed),
      gradesGroups: options.gradesGroups ?? false,
      callsOf: (rolloutId) => calls.of(rolloutId),
    }
  }
}

async function openDriver(
  options: ServedRolloutsOptions,
  recorded: RecordedPolicy,
): Promise<Pick<RolloutSource, 'runner' | 'close'>> {
  const { server, agentTimeoutSeconds = null, graderTimeoutSeconds = null } = options
  if (options.kind === 'agent-loop') {
    const trainer = await createTrainer({ policy: recorded })
    const runner = loopRunner(trainer, { server, timeoutSeconds: agentTimeoutSeconds, recorded })
    return { runner, close: () => trainer.close() }
  }
  const controller = await createController({ policy: recorded, server })
  const timeouts = { agentTimeoutSeconds, graderTimeoutSeconds }
  const runner = workflowRunner(controller, { ...timeouts, recorded })
  return { runner, close: () => controller.close() }
}

/** What trainers need of every answer. */
const trainable = { logprobs: true, return_token_ids: true }

function withSampling<T extends PolicyModel>(
  policy: T,
  sampling: Readonly<Record<string, unknown>>,
): T {
  return {
    ...policy,
    respond: (request) => {
      const body = { ...request.body, ...sampling, ...shortest(request.body, sampling) }
      return policy.respond({ ...request, body: { ...body, ...trainable } })
    },
  }
}

/** An agent may ask for shorter answers than the training allows, under either name. */
function shortest(
  body: Readonly<Record<string, unknown>>,
  { max_tokens: most }: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (typeof most !== 'number') return {}
  const own = ['max_tokens', 'max_completion_tokens'].flatMap((name) => {
    const asked = body[name]
    return typeof asked === 'number' ? [asked] : []
  })
  return { max_tokens: Math.min(most, ...own), max_completion_tokens: undefined }
}

/** Seeds of answers, by step, row, attempt, sample and number of the call. */
class AnswerSeeds {
  #step = ''
  /** Of the rollouts that run. */
  readonly #rollouts = new Map<string, { readonly place: string; readonly calls: string[] }>()

  startStep(seed: string): void {
    this.#step = seed
  }

  /** The same runner, which says where its rollouts belong. */
  following(runner: ItemRunner): ItemRunner {
    return {
      run: async (item, options) => {
        const { rolloutId, row, runIndex } = item
        const place = `${this.#step}/${row.sourceRowIndex}/${runIndex}`
        this.#rollouts.set(rolloutId, { place, calls: [] })
        try {
          return await runner.run(item, options)
        } finally {
          this.#rollouts.delete(rolloutId)
        }
      },
    }
  }

  /** The same policy, whose answers are drawn by these seeds. */
  seeded(policy: PolicyModel): PolicyModel {
    return {
      ...policy,
      respond: (request) => {
        const { rolloutId, sampleId, body } = request
        const rollout = this.#rollouts.get(rolloutId)
        if (rollout === undefined) return policy.respond(request)
        const { place, calls } = rollout
        const call = calls.filter((id) => id === sampleId).length
        calls.push(sampleId)
        const drawnBy = JSON.stringify([place, sampleId, call])
        // Services take 31 bits.
        const seed = createHash('sha256').update(drawnBy).digest().readUInt32BE() >>> 1
        return policy.respond({ ...request, body: { ...body, seed } })
      },
    }
  }
}

/** Keeps the calls of each rollout until its outcome is known; documents get them without token ids. */
class RecordedCalls {
  readonly policy: RecordedPolicy
  readonly #recordings = new Map<string, RolloutRecording>()

  constructor(policy: PolicyModel, sampling: Readonly<Record<string, unknown>>) {
    // Outside of the recorder, which records the settings that the policy gets.
    const recorded = withSampling(recordPolicy(policy, { tokenIds: true }), sampling)
    this.policy = {
      ...recorded,
      record: (rolloutId) => {
        const recording = recorded.record(rolloutId)
        this.#recordings.set(rolloutId, recording)
        return {
          samples: () =>
            new Map([...recording.samples()].map(([id, said]) => [id, withoutIds(said)])),
          get trouble() {
            return recording.trouble
          },
          end: () => {
            this.#recordings.delete(rolloutId)
            recording.end()
          },
        }
      },
    }
  }

  of(rolloutId: string): ReadonlyMap<string, SampledCalls> {
    const said = this.#recordings.get(rolloutId)?.samples() ?? new Map<string, RecordedTranscript>()
    return new Map([...said].map(([id, { calls }]) => [id, { calls }]))
  }
}

function withoutIds(transcript: RecordedTranscript): RecordedTranscript {
  const calls = transcript.calls.map((call) => ({
    ...call,
    promptTokenIds: null,
    completionTokenIds: null,
    logprobs: null,
  }))
  return { ...transcript, calls }
}
