import { AsyncLocalStorage } from 'node:async_hooks'

import { OsmosisError } from './errors.ts'
import { EgressPolicy, type EgressOptions } from './http/egress-policy.ts'
import { assertHeaderSafeId } from './identifiers.ts'
import { type PolicyLimits, policyLimits } from './policy/answer-limits.ts'
import type { PolicyCall, CallLog } from './policy/call-log.ts'
import {
  type BeginningModelCall,
  createPolicyClient,
  type PolicyClient,
  type PolicyRoute,
} from './policy/policy-client.ts'
import { policyEndpoint } from './policy/policy-endpoint.ts'
import { createPolicyFetch } from './policy/policy-fetch.ts'
import type { PolicyStream } from './policy/policy-stream.ts'
import type { PolicyWire } from './policy/policy-wire.ts'
import { wireTranscript } from './policy/transcript.ts'
import { toRolloutSample, type RolloutSample } from './rollout-sample.ts'
import { type SampleSource, SampleRegistry } from './sample-registry.ts'
import { traces } from './tracing/rollout-trace.ts'

/** A sample whose messages are what goes over the wire, for frameworks without an adapter. */
class PolicySample implements SampleSource {
  readonly requiresModelCall = true
  /** The way to the policy, for the framework. */
  readonly policy: PolicyClient
  readonly #log: CallLog
  /** The signals of the calls that have not ended. */
  readonly #open = new Set<AbortSignal | undefined>()
  /** `seenUpTo`: how many calls had started by then. */
  #failed: { error: Error; seenUpTo: number } | undefined
  #started = 0

  constructor(policy: PolicyClient, log: CallLog) {
    this.#log = log
    const stream: PolicyClient['stream'] = (request, options) =>
      this.#watched(policy.stream(request, options), options?.signal)
    this.policy = { ...policy, fetch: createPolicyFetch({ stream }) }
  }

  getSample(id: string): RolloutSample {
    return toRolloutSample({ id, messages: wireTranscript(this.#log)?.messages ?? [] })
  }

  /**
   * Frameworks make a text of an error that happens in a tool, and an empty answer of one that happens in a
   * stream; and nobody has to read a stream.
   */
  unnoticedError(): Error | undefined {
    if (this.#failed) return this.#failed.error
    if ([...this.#open].every((signal) => signal?.aborted)) return undefined
    return new OsmosisError(
      'rollout_ended',
      'The workflow returned while the policy was answering: read streams to their end, and await everything the workflow starts.',
    )
  }

  #watched(answer: PolicyStream, signal: AbortSignal | undefined): PolicyStream {
    const number = (this.#started += 1)
    const chunks = answer[Symbol.asyncIterator]()
    this.#open.add(signal)
    const iterator: ReturnType<PolicyStream[typeof Symbol.asyncIterator]> = {
      next: async () => {
        try {
          const result = await chunks.next()
          if (result.done) this.#open.delete(signal)
          // A call that began before another failed is no recovery from that failure.
          if (result.done && number > (this.#failed?.seenUpTo ?? 0)) this.#failed = undefined
          return result
        } catch (error) {
          this.#open.delete(signal)
          if (!signal?.aborted && error instanceof Error) {
            this.#failed = { error, seenUpTo: this.#started }
          }
          throw error
        }
      },
      return: async () => {
        this.#open.delete(signal)
        return (await chunks.return?.()) ?? { done: true, value: undefined }
      },
    }
    return { completion: answer.completion, [Symbol.asyncIterator]: () => iterator }
  }
}

// On globalThis, so that two installed copies of this package see the same ambient rollout.
const storageKey = Symbol.for('osmosis.rollout-context')
const holder = globalThis as { [storageKey]?: AsyncLocalStorage<RolloutContext> }
const storage = (holder[storageKey] ??= new AsyncLocalStorage<RolloutContext>())

/** How long the sources of a failed rollout may take to say what they have. */
const partialSamplesMs = 1000

/** What a {@link RolloutContext} is made of. */
export interface RolloutContextInit {
  rolloutId: string
  /** Base URL of the policy; `/chat/completions` is appended. */
  chatCompletionsUrl: string
  /** Bearer of the policy endpoint. */
  apiKey?: string | undefined
  /** How the policy endpoint wants to be asked. Default: streaming, see {@link PolicyWire}. */
  wire?: PolicyWire | undefined
  /** Aborts at the rollout's deadline or cancellation; default: never. */
  signal?: AbortSignal | undefined
  /**
   * For backends: awaited once, before the first model call leaves. When it rejects, model calls fail
   * with that.
   */
  beforeFirstModelCall?: (() => Promise<void>) | undefined
  /**
   * For backends: awaited before each model call. When it rejects, the call fails with that. What it
   * returns is called once, when nothing more is read of the answer.
   */
  modelCallBegins?: ((call: BeginningModelCall) => Promise<() => void>) | undefined
  /** For backends: called when the endpoint says that the trainer withdrew the rollout, which has to end then. */
  onWithdrawn?: ((reason: OsmosisError) => void) | undefined
  /** Where model calls may go; default: anywhere but where {@link EgressOptions} never lets them. */
  egress?: EgressOptions | undefined
  /** Limits of an answer of the policy. */
  policyLimits?: PolicyLimits | undefined
}

/**
 * One rollout in flight: where its policy is, whose samples belong to it. Agents built inside
 * {@link RolloutContext.run} find it by themselves.
 */
export class RolloutContext {
  readonly rolloutId: string
  /** Aborted when the rollout's deadline passed, or somebody cancelled it, or it is over. */
  readonly signal: AbortSignal
  // A private field: the key in it appears in no log line, no JSON and no inspected object.
  readonly #route: PolicyRoute
  readonly #registry = new SampleRegistry()
  readonly #clients = new Map<string, PolicyClient>()

  /**
   * @throws OsmosisError with code `invalid_id`, `invalid_request` or `invalid_config`
   */
  constructor(init: RolloutContextInit) {
    assertHeaderSafeId('rollout', init.rolloutId)
    this.rolloutId = init.rolloutId
    this.signal = init.signal ?? new AbortController().signal
    this.#route = {
      rolloutId: init.rolloutId,
      endpoint: policyEndpoint(init.chatCompletionsUrl),
      apiKey: init.apiKey || undefined,
      wire: init.wire,
      egress: EgressPolicy.of(init.egress),
      limits: policyLimits('the rollout', init.policyLimits),
      signal: this.signal,
      callBegins: init.modelCallBegins,
      beforeCall: init.beforeFirstModelCall && once(init.beforeFirstModelCall),
      paused: [],
      onWithdrawn: init.onWithdrawn,
    }
  }

  /**
   * Base URL of the policy, without `/chat/completions`. Whoever reads it may ask the policy past
   * {@link RolloutContext.policy}, so it counts as a model call that is about to leave.
   */
  get chatCompletionsUrl(): string {
    const { beforeCall, endpoint } = this.#route
    beforeCall?.().catch(() => {})
    return endpoint.baseUrl
  }

  /**
   * The context that a process was started for, from `OSMOSIS_CHAT_COMPLETIONS_URL`,
   * `OSMOSIS_API_KEY` (optional) and `OSMOSIS_ROLLOUT_ID`.
   *
   * @throws OsmosisError with code `no_rollout_context` when a variable is missing
   */
  static fromEnv(
    env: Readonly<Record<string, string | undefined>> = readEnvironment(),
  ): RolloutContext {
    const chatCompletionsUrl = env['OSMOSIS_CHAT_COMPLETIONS_URL']
    const rolloutId = env['OSMOSIS_ROLLOUT_ID']
    if (!chatCompletionsUrl || !rolloutId) {
      throw new OsmosisError(
        'no_rollout_context',
        `RolloutContext.fromEnv() needs OSMOSIS_CHAT_COMPLETIONS_URL and OSMOSIS_ROLLOUT_ID; ${chatCompletionsUrl ? 'OSMOSIS_ROLLOUT_ID' : 'OSMOSIS_CHAT_COMPLETIONS_URL'} is not set.`,
      )
    }
    return new RolloutContext({ chatCompletionsUrl, rolloutId, apiKey: env['OSMOSIS_API_KEY'] })
  }

  /** Makes this the ambient rollout of everything that `fn` starts, and restores the outer one. */
  run<T>(fn: () => T): T {
    return storage.run(this, fn)
  }

  /**
   * Adds a sample to the rollout. Its name becomes the sample id of every model call of `source`.
   *
   * @throws OsmosisError with code `duplicate_sample` or `invalid_id`
   */
  registerSampleSource(name: string, source: SampleSource): void {
    this.#registry.register(name, source)
  }

  /**
   * Adds a sample whose messages are what goes over the wire under its name, in chat completions form, and
   * gives the way to the policy for it. For frameworks without an adapter: hand them the client's
   * `fetch` and `baseUrl`. An agent that never asked gives no sample. A call of that `fetch` that failed, and
   * after which none was answered, fails the rollout, whatever the framework made of the error.
   *
   * @throws OsmosisError with code `duplicate_sample` or `invalid_id`
   */
  registerPolicySample(name: string): PolicyClient {
    const sample = new PolicySample(this.policy(name), this.#registry.log(name))
    this.registerSampleSource(name, sample)
    return sample.policy
  }

  /** The names registered so far, in order, whether or not their sources give a sample. */
  get sampleSourceNames(): readonly string[] {
    return this.#registry.names
  }

  /**
   * Asks every source for its sample, in the order they were registered. Agents that never asked
   * the policy give none; see {@link SampleSource.requiresModelCall}.
   */
  getSamples(): Promise<ReadonlyMap<string, RolloutSample>> {
    return this.#registry.samples()
  }

  /**
   * For backends, when the workflow failed: what was said until then, for people to see. Sources get
   * a second to answer. Never rejects, and is no substitute for `getSamples`: what is here was
   * not completed.
   */
  async getPartialSamples(): Promise<ReadonlyMap<string, RolloutSample>> {
    return this.#registry.partialSamples(AbortSignal.timeout(partialSamplesMs))
  }

  /**
   * For backends, to be called when the workflow has ended and its samples are collected: a model
   * call that failed inside a stream which nobody read must not look like an empty success.
   *
   * @throws the error of that call, as the sample source gives it
   */
  throwUnnoticedError(): void {
    const error = this.#registry.unnoticedError()
    if (error) throw error
  }

  /**
   * The way to the policy for one sample; the same client each time.
   *
   * @throws OsmosisError with code `invalid_id`
   */
  policy(sampleId: string): PolicyClient {
    const known = this.#clients.get(sampleId)
    if (known) return known
    const log = this.#registry.log(sampleId)
    const client = createPolicyClient(this.#route, { id: sampleId, log, trace: traces.get(this) })
    this.#clients.set(sampleId, client)
    return client
  }

  /** For backends: the model calls under ids that gave none of these samples. */
  callsOutside(samples: ReadonlyMap<string, RolloutSample>): readonly PolicyCall[] {
    return this.#registry.callsOutside(samples)
  }

  /** For backends: what the endpoint said to a model call that waits because it was asked to. */
  get pausedBy(): OsmosisError | undefined {
    const [first] = this.#route.paused
    return first
  }

  /** For backends: the ids under which a model call is in progress. */
  get busySampleIds(): readonly string[] {
    return this.#registry.busyIds
  }

  /** How many model calls went through this rollout so far. */
  get policyCallCount(): number {
    return this.#registry.callCount
  }
}

/** The rollout this code runs in; undefined outside of one. */
export function getRolloutContext(): RolloutContext | undefined {
  return storage.getStore()
}

/**
 * The rollout this code runs in.
 *
 * @param who - what needs it, as the first words of the error message
 * @throws OsmosisError with code `no_rollout_context`
 */
export function requireRolloutContext(who: string): RolloutContext {
  const context = getRolloutContext()
  if (context) return context
  throw new OsmosisError(
    'no_rollout_context',
    `${who} needs an active rollout: construct it inside AgentWorkflow.run(), where the backend has set one up.`,
  )
}

function once(work: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined
  return () => (result ??= work())
}

// Only fromEnv reads the environment: a server must never fall back to what its host has set.
function readEnvironment(): NodeJS.ProcessEnv {
  // oxlint-disable-next-line node/no-process-env
  return process.env
}
