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
import { loopRunner, workflowRunner } from '@osmosis/eval'

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
  /** Settings for the body of each model call, such as `temperature`; they override those of the agent. */
  readonly sampling?: Readonly<Record<string, unknown>>
}

/** Rollouts that a rollout server runs. A controller of this process answers their model calls. */
export function servedRollouts(options: ServedRolloutsOptions): OpenRollouts {
  return async (policy) => {
    const calls = new RecordedCalls(policy, options.sampling ?? {})
    const driver = await openDriver(options, calls.policy)
    return {
      ...driver,
      gradesGroups: options.gradesGroups ?? false,
      sampling: options.sampling ?? {},
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
    respond: (request) =>
      policy.respond({ ...request, body: { ...request.body, ...sampling, ...trainable } }),
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
