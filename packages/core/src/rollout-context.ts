import { AsyncLocalStorage } from 'node:async_hooks'

import { OsmosisError } from './errors.ts'
import { EgressPolicy, type EgressOptions } from './http/egress/egress-policy.ts'
import type { EndpointNames } from './http/exchange.ts'
import { assertHeaderSafeId } from './identifiers.ts'
import { type PolicyLimits, policyLimits } from './policy/answer/answer-limits.ts'
import { wireTranscript } from './policy/call-log.ts'
import {
  type StartingModelCall,
  createPolicyClient,
  type PolicyClient,
  type PolicyRoute,
} from './policy/policy-client.ts'
import { policyEndpoint } from './policy/policy-endpoint.ts'
import { callUse, type PolicyWire } from './policy/policy-wire.ts'
import { toRolloutSample, type RolloutSample } from './rollout-sample.ts'
import { type SampleSource, SampleRegistry } from './sample-registry.ts'
import { sharedByCopies } from './shared-by-copies.ts'
import { traces } from './tracing/rollout-trace.ts'
import { toolErrorLine } from './tracing/tool-error-line.ts'
import type { PromptMessage } from './workflow/agent-workflow.ts'
import type { RolloutBudget } from './workflow/rollout-limits.ts'

const storage = sharedByCopies('rollout-context', () => new AsyncLocalStorage<RolloutContext>())
// Also the same for both copies.
const recordKey: unique symbol = Symbol.for('osmosis.rollout-record')

/** Runs the code of a rollout, `start`, and returns what it returns. */
export type RolloutWrapper = <T>(rollout: RolloutContext, start: () => T) => T

const wrappers = sharedByCopies('rollout-wrappers', () => new Set<RolloutWrapper>())

/**
 * For adapters, when they are loaded: every rollout runs inside `wrapper`, which can set what a framework keeps in an
 * async context of its own.
 */
export function wrapRollouts(wrapper: RolloutWrapper): void {
  wrappers.add(wrapper)
}

/** The variables of {@link RolloutContext.fromEnv}. */
const variables: EndpointNames = { url: 'OSMOSIS_CHAT_COMPLETIONS_URL', key: 'OSMOSIS_API_KEY' }

/** A tool that is broken throws at each call. */
const maxToolErrors = 10

/** Options of a {@link RolloutContext}. */
export interface RolloutContextInit {
  rolloutId: string
  /** Base URL of the policy; `/chat/completions` is appended. */
  chatCompletionsUrl: string
  /** Bearer of the policy endpoint. */
  apiKey?: string | undefined
  /** What the policy endpoint expects. Default: streaming, see {@link PolicyWire}. */
  wire?: PolicyWire | undefined
  /** What the sender of the rollout calls the address and the key, for messages. Default: the names of these options. */
  endpointNames?: EndpointNames | undefined
  /** Aborts at the rollout's deadline or cancellation; default: never. */
  signal?: AbortSignal | undefined
  /**
   * For backends: awaited once, before the first model call is sent. If it rejects, model calls fail with
   * its error.
   */
  beforeFirstModelCall?: (() => Promise<void>) | undefined
  /**
   * For backends: awaited before each model call. If it rejects, the call fails with its error. The function
   * that it returns is called once, when the call has ended.
   */
  modelCallBegins?: ((call: StartingModelCall) => Promise<() => void>) | undefined
  /** For backends: called when the endpoint reports that the trainer withdrew the rollout, which has to end then. */
  onWithdrawn?: ((reason: OsmosisError) => void) | undefined
  /** Where model calls may connect to. Default: the defaults of {@link EgressOptions}. */
  egress?: EgressOptions | undefined
  /** Limits on an answer of the policy. */
  policyLimits?: PolicyLimits | undefined
  /**
   * For backends: the prompt of the rollout. Frameworks parse the arguments of its tool calls; they reach the policy as
   * they are written here (`1.0`, not `1`).
   */
  initialMessages?: readonly PromptMessage[] | undefined
  /** For backends: counts what the rollout may use. Default: it has no limits. */
  budget?: RolloutBudget | undefined
}

/**
 * One rollout in progress: its policy and its samples. Agents that are built inside
 * {@link RolloutContext.run} find it without further arguments.
 */
export class RolloutContext {
  readonly rolloutId: string
  /** Aborted at the rollout's deadline, cancellation or end. */
  readonly signal: AbortSignal
  // Private, so that logs, JSON and inspection do not show the key in it.
  readonly #route: PolicyRoute
  /** @internal */
  readonly [recordKey]: SampleRegistry
  readonly #clients = new Map<string, PolicyClient>()
  #toolErrors = 0

  /**
   * @throws OsmosisError with code `invalid_id`, `invalid_request` or `invalid_config`
   */
  constructor(init: RolloutContextInit) {
    assertHeaderSafeId('rollout', init.rolloutId)
    this.rolloutId = init.rolloutId
    this.signal = init.signal ?? new AbortController().signal
    this[recordKey] = new SampleRegistry(init.initialMessages)
    this.#route = {
      rolloutId: init.rolloutId,
      endpoint: policyEndpoint(init.chatCompletionsUrl, init.endpointNames),
      apiKey: init.apiKey || undefined,
      wire: init.wire,
      names: init.endpointNames,
      egress: EgressPolicy.of(init.egress),
      limits: policyLimits('the rollout', init.policyLimits),
      budget: init.budget,
      signal: this.signal,
      callBegins: init.modelCallBegins,
      beforeCall: init.beforeFirstModelCall && once(init.beforeFirstModelCall),
      paused: this[recordKey].paused,
      onWithdrawn: init.onWithdrawn,
    }
  }

  /**
   * Base URL of the policy, without `/chat/completions`. Reading it counts as a model call, because the
   * reader can call the policy without {@link RolloutContext.policy}.
   */
  get chatCompletionsUrl(): string {
    const { beforeCall, endpoint } = this.#route
    beforeCall?.().catch(() => {})
    return endpoint.baseUrl
  }

  /**
   * The context for which a process was started, from `OSMOSIS_CHAT_COMPLETIONS_URL`,
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
    const apiKey = env['OSMOSIS_API_KEY']
    return new RolloutContext({ chatCompletionsUrl, rolloutId, apiKey, endpointNames: variables })
  }

  /** Makes this the current rollout of everything that `fn` starts. */
  run<T>(fn: () => T): T {
    let start = (): T => storage.run(this, fn)
    for (const wrapper of wrappers) {
      const inner = start
      start = () => wrapper(this, inner)
    }
    return start()
  }

  /**
   * Adds a sample to the rollout. Its name becomes the sample id of every model call of `source`.
   *
   * @throws OsmosisError with code `duplicate_sample` or `invalid_id`
   */
  registerSampleSource(name: string, source: SampleSource): void {
    this[recordKey].register(name, source)
  }

  /**
   * Adds a sample that consists of the messages on the wire under its name, in chat completions form, and
   * returns the client that calls the policy for it. For frameworks without an adapter: pass them the client's
   * `fetch` and `baseUrl`. An agent that never called the policy gives no sample. The rollout fails if a call
   * failed and the agent has not recovered from it, even if the framework handled the error.
   *
   * @throws OsmosisError with code `duplicate_sample` or `invalid_id`
   */
  registerPolicySample(name: string): PolicyClient {
    const log = this[recordKey].log(name)
    this.registerSampleSource(name, {
      requiresModelCall: true,
      getSample: (id) => toRolloutSample({ id, messages: wireTranscript(log)?.messages ?? [] }),
    })
    return this.policy(name)
  }

  /** The names registered so far, in order, also those of sources without a sample. */
  get sampleSourceNames(): readonly string[] {
    return this[recordKey].names
  }

  /**
   * The samples of all sources, in the order they were registered. Agents that never called the policy give
   * none; see {@link SampleSource.requiresModelCall}.
   */
  getSamples(): Promise<ReadonlyMap<string, RolloutSample>> {
    return this[recordKey].samples()
  }

  /**
   * The client that calls the policy for one sample; the same object each time.
   *
   * @throws OsmosisError with code `invalid_id`
   */
  policy(sampleId: string): PolicyClient {
    const known = this.#clients.get(sampleId)
    if (known) return known
    const log = this[recordKey].log(sampleId)
    const client = createPolicyClient(this.#route, { id: sampleId, log, trace: traces.get(this) })
    this.#clients.set(sampleId, client)
    return client
  }

  /**
   * For adapters and tools: writes what a tool threw to stderr, as one line of JSON, because a framework shows the policy the message at
   * most. The first ten of a rollout are written; nothing is when it has ended.
   */
  logToolError(tool: string, error: unknown): void {
    if (this.signal.aborted || this.#toolErrors === maxToolErrors) return
    this.#toolErrors += 1
    process.stderr.write(
      toolErrorLine({ rolloutId: this.rolloutId, tool, error }, this.#route.apiKey),
    )
  }
}

/** What a rollout has recorded, for backends and adapters: users need none of it. */
export function recordOf(context: RolloutContext): SampleRegistry {
  return context[recordKey]
}

/**
 * For adapters: runs what makes a request of a framework's messages, or a message of an answer. Its error counts as one of a
 * model call of the sample, because frameworks make texts and events of it.
 */
export async function converting<T>(
  rollout: RolloutContext,
  { sampleId, ...use }: { sampleId: string; trainable?: boolean | undefined },
  convert: () => T | Promise<T>,
): Promise<T> {
  try {
    return await convert()
  } catch (error) {
    rollout[recordKey].log(sampleId).failures.fail(error, { about: callUse(use) })
    throw error
  }
}

/** The rollout this code runs in; undefined outside of one. */
export function getRolloutContext(): RolloutContext | undefined {
  return storage.getStore()
}

/**
 * The rollout this code runs in.
 *
 * @param who - what needs it: the start of the error message
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

// For fromEnv only: a server must not use the environment of its host.
function readEnvironment(): NodeJS.ProcessEnv {
  // oxlint-disable-next-line node/no-process-env
  return process.env
}
