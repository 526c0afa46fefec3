import { randomUUID } from 'node:crypto'

import {
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
} from '@osmosis/core'
import { policyModelName } from '@osmosis/core/policy'

import { drainedStream } from './drained-stream.ts'
import type {
  CallOptions,
  GenerateResult,
  RolloutLanguageModel,
  StreamPart,
  StreamResult,
} from './language-model-types.ts'
import { type RolloutModelSettings, withDefaults } from './rollout-model-settings.ts'
import { recordOf } from './rollout-records.ts'
import type { SampleRecord } from './sample-record.ts'
import { watchSteps } from './step-results.ts'
import { StreamedParts } from './streamed-parts.ts'
import { noteSample, watchTools } from './tool-spans.ts'
import { providerName, sdkAnswer, wireRequest } from './wire-conversion.ts'

/**
 * The policy, whichever that is at the time, as a model of the AI SDK. Pass it wherever a model is
 * expected: `generateText`, `streamText`, `Output`, `ToolLoopAgent`, `wrapLanguageModel`,
 * `prepareStep`. The rollout is found when the model is called, so one object may serve many
 * rollouts at once.
 *
 * Errors of the policy are thrown as `OsmosisError` and not retried: whatever was worth asking again
 * has been asked again. Outside of rollouts, calls of a model without a `fallback` fail with code
 * `no_rollout_context`.
 *
 * @param settings - a name alone, or settings
 */
export function rolloutModel(settings: string | RolloutModelSettings = {}): RolloutLanguageModel {
  return new RolloutModel(typeof settings === 'string' ? { name: settings } : settings)
}

const brand = Symbol.for('osmosis.ai-sdk.rollout-model')

/** Whether a model was made by {@link rolloutModel}, of this or any other copy of the package. */
export function isRolloutModel(model: unknown): model is RolloutModel {
  return typeof model === 'object' && model !== null && brand in model
}

/** What {@link rolloutModel} makes. */
export class RolloutModel implements RolloutLanguageModel {
  readonly [brand] = true
  readonly specificationVersion = 'v4'
  readonly settings: RolloutModelSettings
  /** The sample id of its calls. */
  readonly name: string
  // Code that has lost its async context, such as a callback of a native addon, finds it here.
  readonly #origin = getRolloutContext()

  constructor(settings: RolloutModelSettings) {
    this.settings = settings
    this.name = settings.name ?? randomUUID()
    // Here, because a call that has begun does not look for listeners any more.
    watchSteps()
    watchTools(this.#origin)
  }

  get provider(): string {
    return this.#substitute?.provider ?? providerName
  }

  get modelId(): string {
    return this.#substitute?.modelId ?? policyModelName
  }

  /** The endpoint fetches these itself. What is not listed the SDK downloads and inlines. */
  get supportedUrls(): RolloutLanguageModel['supportedUrls'] {
    return this.#substitute?.supportedUrls ?? { 'image/*': [/^https?:/], 'video/*': [/^https?:/] }
  }

  async doGenerate(options: CallOptions): Promise<GenerateResult> {
    const substitute = this.#substitute
    if (substitute) return substitute.doGenerate(options)
    const { record, policy } = this.#sample()
    const call = record.begin(options.prompt)
    const { body, warnings } = await wireRequest(withDefaults(this.settings, options))
    const completion = await policy.complete(body, callOptions(options))
    const answer = withTurnId(await sdkAnswer(completion), call.turnId)
    record.succeed(call, answer.content)
    return { ...answer, warnings, request: { body } }
  }

  async doStream(options: CallOptions): Promise<StreamResult> {
    const substitute = this.#substitute
    if (substitute) return substitute.doStream(options)
    const begun = Promise.withResolvers<Omit<StreamResult, 'stream'>>()
    const { stream, drained } = drainedStream<StreamPart>(async (emit) =>
      this.#stream(options, emit, begun.resolve),
    )
    // A text stream of the SDK ends like an empty answer when this method rejects. An error of the
    // stream itself reaches whoever reads it.
    const about = await Promise.race([begun.promise, drained.then(() => ({}))])
    return { ...about, stream }
  }

  async #stream(
    options: CallOptions,
    emit: (part: StreamPart) => void,
    begun: (about: Omit<StreamResult, 'stream'>) => void,
  ): Promise<void> {
    const { record, policy } = this.#sample()
    const call = record.begin(options.prompt)
    const over = record.waitForStream()
    try {
      const { body, warnings } = await wireRequest(withDefaults(this.settings, options))
      emit({ type: 'stream-start', warnings })
      const parts = new StreamedParts(emit)
      const chunks = policy.stream(body, callOptions(options))
      for await (const chunk of chunks) {
        begun({ request: { body } })
        if (options.includeRawChunks) emit({ type: 'raw', rawValue: chunk })
        parts.add(chunk)
      }
      const answer = withTurnId(await sdkAnswer(await chunks.completion), call.turnId)
      // Before the SDK knows: the step it makes of the answer refers to it.
      record.succeed(call, answer.content)
      parts.end(answer)
    } catch (error) {
      if (!options.abortSignal?.aborted) record.failUnnoticed(error)
      throw error
    } finally {
      over()
    }
  }

  /** The model that answers here instead of the policy. */
  get #substitute(): RolloutLanguageModel | undefined {
    return this.#rollout === undefined ? this.settings.fallback : undefined
  }

  get #rollout(): RolloutContext | undefined {
    return getRolloutContext() ?? this.#origin
  }

  /** The sample that a call made now belongs to. */
  #sample(): { record: SampleRecord; policy: PolicyClient } {
    const rollout = this.#rollout
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'rolloutModel() needs an active rollout: call the model inside AgentWorkflow.run(), or give it another model for outside: rolloutModel({ fallback: … }).',
      )
    }
    watchTools(rollout)
    noteSample(rollout, this.name)
    return { record: recordOf(rollout, this.name), policy: rollout.policy(this.name) }
  }
}

/** Of the headers only the one that names the SDK, or who else calls the model: the others are for a provider. */
function callOptions({ abortSignal, headers }: CallOptions): PolicyCallOptions {
  return {
    signal: abortSignal,
    headers: { 'user-agent': headers?.['user-agent'] ?? 'ai-sdk' },
  }
}

/** From there it goes into the step that the SDK makes of the answer. */
function withTurnId(answer: GenerateResult, turnId: string): GenerateResult {
  const { providerMetadata } = answer
  const ours = { ...providerMetadata?.[providerName], turnId }
  return { ...answer, providerMetadata: { ...providerMetadata, [providerName]: ours } }
}
