import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'

import {
  definePolicyFaults,
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  type PolicyClient,
  type RolloutContext,
} from '@osmosis/core'
import { type ChatCompletion, policyModelName } from '@osmosis/core/policy'
import { traceOf } from '@osmosis/core/tracing'
import { converting, type FallbackModel, fallbackModel, ModelOrigin } from '@osmosis/core/workflow'
import type { customProvider, LanguageModel, registerTelemetry, Telemetry } from 'ai'

import type {
  CallOptions,
  GenerateResult,
  RolloutLanguageModel,
  StreamPart,
  StreamResult,
} from './language-model-types.ts'
import { noteAnswer, sdkFault } from './policy-faults.ts'
import { recordOf } from './rollout-records.ts'
import { SampleRecord } from './sample-record.ts'
import { watchSteps } from './step-results.ts'
import { StreamedParts } from './streamed-parts.ts'
import { providerName, sdkAnswer, type WireRequest, wireRequest } from './wire-conversion.ts'

definePolicyFaults(sdkFault)

/** What the model needs of the SDK beside its interface. */
export interface SdkFunctions {
  readonly customProvider: typeof customProvider
  readonly registerTelemetry: typeof registerTelemetry
}

interface TracedCalls {
  /** The id of the SDK's call that a model call belongs to. */
  readonly current: AsyncLocalStorage<string>
  /** The samples that calls of the SDK belong to, by the ids of the calls. */
  readonly samples: WeakMap<RolloutContext, Map<string, string>>
}

// On globalThis: every copy of this package would hear of the same tools.
const callsKey = Symbol.for('osmosis.ai-sdk.traced-calls')
const holder = globalThis as { [callsKey]?: TracedCalls }

/**
 * Makes the SDK report the tools it runs, once somebody wants traces: until then a call has nothing to
 * do with it. The same calls are left out as by `watchSteps`.
 */
function watchTools(rollout: RolloutContext | undefined, sdk: SdkFunctions): void {
  if (holder[callsKey] !== undefined || traceOf(rollout) === undefined) return
  const calls = { current: new AsyncLocalStorage<string>(), samples: new WeakMap() }
  holder[callsKey] = calls
  sdk.registerTelemetry(spansOfTools(calls))
}

/** Notes which sample the call of the SDK belongs to that this code runs in. */
function noteSample(rollout: RolloutContext, sampleId: string): void {
  const { current, samples } = holder[callsKey] ?? {}
  const callId = current?.getStore()
  if (callId === undefined) return
  const known = samples?.get(rollout)
  if (known === undefined) samples?.set(rollout, new Map([[callId, sampleId]]))
  else known.set(callId, sampleId)
}

function spansOfTools({ current, samples }: TracedCalls): Telemetry {
  return {
    executeLanguageModelCall: ({ callId, execute }) => current.run(callId, execute),
    async executeTool({ callId, toolCallId: id, toolCall, execute }) {
      const rollout = getRolloutContext()
      const sampleId = rollout && samples.get(rollout)?.get(callId)
      const name = toolCall?.toolName ?? 'unknown'
      const tool = traceOf(rollout)?.tool(sampleId, { name, id })
      if (tool === undefined) return execute()
      try {
        const result = await tool.run(execute)
        tool.end()
        return result
      } catch (error) {
        tool.fail(error)
        throw error
      }
    },
  }
}

const brand = Symbol.for('osmosis.ai-sdk.rollout-model')

/** Whether a model is a {@link RolloutModel}, of this or any other copy of the package. */
export function isRolloutModel(model: unknown): model is RolloutModel {
  return typeof model === 'object' && model !== null && brand in model
}

const urlsOfPolicy = { 'image/*': [/^https?:/], 'video/*': [/^https?:/] }

/**
 * The policy as a model of the AI SDK. It loads no SDK: that of its caller tells it of tools and steps, and resolves a
 * fallback.
 */
export class RolloutModel implements RolloutLanguageModel {
  readonly [brand] = true
  readonly specificationVersion = 'v4'
  readonly settings: RolloutModelSettings
  /** The sample id of its calls. */
  readonly name: string
  readonly #sdk: SdkFunctions | undefined
  readonly #origin = new ModelOrigin()
  #resolved: RolloutLanguageModel | undefined

  /**
   * @param sdk - the SDK whose calls use the model; without one, `settings` have no `fallback`, and nobody hears of tools
   * and steps
   */
  constructor(settings: RolloutModelSettings, sdk?: SdkFunctions) {
    this.settings = settings
    this.name = settings.name ?? randomUUID()
    this.#sdk = sdk
    if (sdk === undefined) return
    // Here, because a call that has started does not look for listeners any more.
    watchSteps(sdk)
    watchTools(getRolloutContext(), sdk)
  }

  get provider(): string {
    return this.#substitute?.provider ?? providerName
  }

  get modelId(): string {
    return this.#substitute?.modelId ?? policyModelName
  }

  /** The endpoint fetches these itself. What is not listed the SDK downloads and inlines. */
  get supportedUrls(): RolloutLanguageModel['supportedUrls'] {
    if (this.settings.fallback === undefined) return urlsOfPolicy
    // A model that is wrapped at the top of a module is asked there, for all calls.
    return {
      // oxlint-disable-next-line unicorn/no-thenable -- the SDK awaits it before each call
      then: async (resolve, reject) =>
        Promise.resolve(this.#substitute?.supportedUrls ?? urlsOfPolicy).then(resolve, reject),
    }
  }

  async doGenerate(options: CallOptions): Promise<GenerateResult> {
    const substitute = this.#substitute
    if (substitute) return substitute.doGenerate(options)
    const { rollout, record, policy } = this.#sample()
    const call = record.begin(options.prompt)
    const { body, warnings } = await this.#request(rollout, options)
    const completion = await policy.complete(body, this.#callOptions(options))
    const answer = await this.#answer(rollout, completion, call.turnId)
    record.succeed(call, answer.content)
    return { ...answer, warnings, request: { body } }
  }

  async doStream(options: CallOptions): Promise<StreamResult> {
    const substitute = this.#substitute
    if (substitute) return substitute.doStream(options)
    const started = Promise.withResolvers<Omit<StreamResult, 'stream'>>()
    const { stream, drained } = drainedStream<StreamPart>(async (emit) =>
      this.#stream(options, emit, started.resolve),
    )
    // A text stream of the SDK ends like an empty answer when this method rejects. An error of the
    // stream itself reaches the code that reads it.
    const about = await Promise.race([started.promise, drained.then(() => ({}))])
    return { ...about, stream }
  }

  async #stream(
    options: CallOptions,
    emit: (part: StreamPart) => void,
    started: (about: Omit<StreamResult, 'stream'>) => void,
  ): Promise<void> {
    const { rollout, record, policy } = this.#sample()
    const call = record.begin(options.prompt)
    const over = record.waitForStream()
    try {
      const { body, warnings } = await this.#request(rollout, options)
      emit({ type: 'stream-start', warnings })
      const parts = new StreamedParts(emit)
      const chunks = policy.stream(body, this.#callOptions(options))
      for await (const chunk of chunks) {
        started({ request: { body } })
        if (options.includeRawChunks) emit({ type: 'raw', rawValue: chunk })
        parts.add(chunk)
      }
      const answer = await this.#answer(rollout, await chunks.completion, call.turnId)
      // Before the SDK knows: the step it makes of the answer refers to it.
      record.succeed(call, answer.content)
      parts.end(answer)
    } finally {
      over()
    }
  }

  #request(rollout: RolloutContext, options: CallOptions): Promise<WireRequest> {
    return this.#converting(rollout, () => wireRequest(withDefaults(this.settings, options)))
  }

  async #answer(
    rollout: RolloutContext,
    completion: ChatCompletion,
    turnId: string,
  ): Promise<GenerateResult> {
    const answer = withTurnId(await this.#converting(rollout, () => sdkAnswer(completion)), turnId)
    if (this.settings.trainable !== false) noteAnswer(rollout, answer)
    return answer
  }

  #converting<T>(rollout: RolloutContext, convert: () => Promise<T>): Promise<T> {
    const { trainable } = this.settings
    return converting(rollout, { sampleId: this.name, trainable }, convert)
  }

  /** The model that answers here instead of the policy. */
  get #substitute(): RolloutLanguageModel | undefined {
    const { fallback } = this.settings
    if (fallback === undefined || this.#origin.rollout !== undefined) return undefined
    const model = fallbackModel(fallback)
    // The SDK looks a name up for each call, and warns each time that it converts an older model.
    return typeof model === 'string'
      ? this.#resolve(model)
      : (this.#resolved ??= this.#resolve(model))
  }

  /** A provider of the SDK resolves names and models of older versions as the SDK does for its own calls. */
  #resolve(fallback: LanguageModel): RolloutLanguageModel | undefined {
    return this.#sdk?.customProvider({ languageModels: { fallback } }).languageModel('fallback')
  }

  /** The sample that a call made now belongs to. */
  #sample(): { rollout: RolloutContext; record: SampleRecord; policy: PolicyClient } {
    const rollout = this.#origin.ofCall('A rolloutModel()')
    if (rollout === undefined) {
      throw new OsmosisError(
        'no_rollout_context',
        'rolloutModel() needs an active rollout: call the model inside AgentWorkflow.run(), or give it another model for outside: rolloutModel({ fallback: … }).',
      )
    }
    if (this.#sdk) watchTools(rollout, this.#sdk)
    noteSample(rollout, this.name)
    const { trainable } = this.settings
    // A conversation that is not training data must not become that of the sample.
    const record = trainable === false ? new SampleRecord() : recordOf(rollout, this.name)
    return { rollout, record, policy: rollout.policy(this.name) }
  }

  /** Of the headers only the one that names the SDK, or who else calls the model: the others are for a provider. */
  #callOptions({ abortSignal, headers }: CallOptions): PolicyCallOptions {
    const { purpose, trainable } = this.settings
    return {
      signal: abortSignal,
      purpose,
      trainable,
      headers: { 'user-agent': headers?.['user-agent'] ?? 'ai-sdk' },
    }
  }
}

/**
 * From there it goes into the step that the SDK makes of the answer. The time goes into its errors about the answer,
 * which are known by it.
 */
function withTurnId(answer: GenerateResult, turnId: string): GenerateResult {
  const { providerMetadata, response } = answer
  const ours = { ...providerMetadata?.[providerName], turnId }
  return {
    ...answer,
    response: { ...response, timestamp: response?.timestamp ?? new Date() },
    providerMetadata: { ...providerMetadata, [providerName]: ours },
  }
}

/** A stream that is read whether or not anybody reads it. */
interface DrainedStream<T> {
  readonly stream: ReadableStream<T>
  /** Resolves, and never rejects, when the source has ended. */
  readonly drained: Promise<void>
}

/**
 * A stream of what `source` emits, as fast as that comes, whatever the consumer of the stream does:
 * the SDK stops reading when its own consumer leaves, and the policy would be cut off in the middle
 * of a turn that it has to be trained on as a whole. What is not read yet waits in the stream. An
 * error of `source` becomes one of the stream.
 */
function drainedStream<T>(source: (emit: (part: T) => void) => Promise<void>): DrainedStream<T> {
  let consumer: ReadableStreamDefaultController<T> | undefined
  const stream = new ReadableStream<T>({
    start(controller) {
      consumer = controller
    },
    cancel() {
      consumer = undefined
    },
  })
  const drained = source((part) => consumer?.enqueue(part)).then(
    () => consumer?.close(),
    (error: unknown) => consumer?.error(error),
  )
  return { stream, drained }
}

/**
 * Settings of `rolloutModel`. Sampling settings are defaults: those of `generateText`,
 * `streamText` or an agent win.
 */
export interface RolloutModelSettings {
  /** The sample id of the model's calls; default: a random one for each model object. */
  name?: string | undefined
  /** What the model's calls are for, such as `title`. Default: `agent`. */
  purpose?: string | undefined
  /** Whether its answers are training data. Default: true. */
  trainable?: boolean | undefined
  temperature?: number | undefined
  topP?: number | undefined
  /** Sent as `top_k`. */
  topK?: number | undefined
  frequencyPenalty?: number | undefined
  presencePenalty?: number | undefined
  maxOutputTokens?: number | undefined
  seed?: number | undefined
  stopSequences?: string[] | undefined
  /** More fields of the request body, sent as they are: `min_p`, `logprobs`, … */
  extraBody?: Readonly<Record<string, unknown>> | undefined
  /**
   * Answers outside of rollouts, with settings of its own, so that one program serves both. Any model that the SDK takes;
   * a function that makes it is called when it is first needed.
   */
  fallback?: FallbackModel<LanguageModel> | undefined
}

/** What the SDK takes from a model whose call leaves something open. */
function withDefaults(
  {
    name: _name,
    fallback: _fallback,
    purpose: _purpose,
    trainable: _trainable,
    extraBody,
    topK: defaultTopK,
    ...defaults
  }: RolloutModelSettings,
  { topK = defaultTopK, providerOptions, ...options }: CallOptions,
): CallOptions {
  return {
    ...definedFields(defaults),
    ...definedFields(options),
    providerOptions: {
      ...providerOptions,
      // What stands here goes into the body. The SDK itself would leave `topK` out.
      [providerName]: {
        ...(topK === undefined ? {} : { top_k: topK }),
        ...extraBody,
        ...providerOptions?.[providerName],
      },
    },
  } as CallOptions
}

function definedFields<T extends object>(fields: T): Partial<T> {
  const defined = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(defined) as Partial<T>
}
