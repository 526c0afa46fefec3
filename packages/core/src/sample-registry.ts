import { errorMessage, isOsmosisError, OsmosisError } from './errors.ts'
import { beginningOf, errorTextBytes } from './http/error-text.ts'
import { untilAborted } from './http/waiting.ts'
import { assertHeaderSafeId } from './identifiers.ts'
import { CallLog, type PolicyCall, wireTranscript, type WireTranscript } from './policy/call-log.ts'
import type { AssistantMessage } from './policy/chat-completion.ts'
import type { PausedCalls } from './policy/policy-endpoint.ts'
import { copyOfFields, toRolloutSample, type RolloutSample } from './rollout-sample.ts'

/** Returns a conversation as a sample. Adapters register one per agent. */
export interface SampleSource {
  /** Called when the workflow has ended. */
  getSample(sampleId: string): RolloutSample | Promise<RolloutSample>
  /**
   * True for the source of an agent, as in adapters: it gives a sample only when a model call under its id that is
   * training data has ended, also with an error. A call that its caller aborted or stopped reading does not count. Otherwise
   * an agent that never ran, or whose only answer nobody read, would count as a wrong answer. A failed call fails the
   * rollout, also when nobody noticed it, unless the agent recovered from it by a later one; so does a call of it
   * that is in progress when the workflow has returned, unless it is the first. Default: false, the source always gives a sample.
   */
  readonly requiresModelCall?: boolean
  /**
   * For errors that are no model call's, and that a workflow may not notice, such as an approval that nobody gave. Called after
   * `getSample`, when the workflow has ended; the rollout fails with the returned error.
   */
  unnoticedError?(): Error | undefined
}

/** How long the sources of a failed rollout may take to return their samples. */
const partialSamplesMs = 1000

/** The samples of one rollout: their sources, and the model calls under each id. */
export class SampleRegistry {
  readonly #sources = new Map<string, SampleSource>()
  readonly #logs = new Map<string, CallLog>()
  readonly #prompt: readonly object[]
  /**
   * A mistake of the program that makes its samples wrong: two of one name, or a call in the async context of another rollout.
   * Frameworks make texts and events of errors, so it fails the rollout also when nobody has noticed it.
   */
  misuse: OsmosisError | undefined
  /** What made model calls wait, for each that waits now. */
  readonly paused: PausedCalls = []

  /** @param prompt - of the rollout, in chat completions form */
  constructor(prompt: readonly object[] = []) {
    this.#prompt = prompt
  }

  register(sampleId: string, source: SampleSource): void {
    assertHeaderSafeId('sample', sampleId)
    if (this.#sources.has(sampleId)) {
      const error = new OsmosisError(
        'duplicate_sample',
        `A sample named "${sampleId}" is already registered in this rollout. Give every agent or session of the workflow a name of its own, also those that a tool makes anew for each call.`,
      )
      this.misuse ??= error
      throw error
    }
    this.#sources.set(sampleId, source)
  }

  log(sampleId: string): CallLog {
    const known = this.#logs.get(sampleId)
    if (known) return known
    assertHeaderSafeId('sample', sampleId)
    const log = new CallLog(this.#prompt)
    this.#logs.set(sampleId, log)
    return log
  }

  /** Number of model calls made under any id. */
  get callCount(): number {
    let count = 0
    for (const log of this.#logs.values()) count += log.size
    return count
  }

  /** The ids under which the policy is answering. */
  get busyIds(): string[] {
    return [...this.#logs].flatMap(([id, log]) => (log.isBusy ? [id] : []))
  }

  /**
   * The answers of the policy that are training data, as the agents got them. Adapters recognise by them which errors
   * of their framework come from the policy.
   */
  get answers(): readonly AssistantMessage[] {
    return [...this.#logs.values()].flatMap((log) => log.answers)
  }

  /** The finished calls under ids other than those of `samples`. */
  callsOutside(samples: ReadonlyMap<string, RolloutSample>): PolicyCall[] {
    const outside: PolicyCall[] = []
    for (const [sampleId, { calls }] of this.#logs) {
      if (samples.has(sampleId)) continue
      for (const { settled } of calls)
        outside.push({ ...settled, answerIndex: null, instructions: null })
    }
    return outside
  }

  /** Whether a call that is training data failed with this error. */
  isOfTrainedCall(error: unknown): boolean {
    const said = beginningOf(errorMessage(error), errorTextBytes)
    return [...this.#logs.values()].some(({ calls }) =>
      calls.some(({ about, settled }) => about.trainable && settled.error === said),
    )
  }

  /** The names of all sources, in the order they were registered. */
  get names(): string[] {
    return [...this.#sources.keys()]
  }

  /** All samples in the order they were registered. */
  async samples(): Promise<Map<string, RolloutSample>> {
    const samples = new Map<string, RolloutSample>()
    for (const [sampleId, source] of this.#sources) {
      const sample = await source.getSample(sampleId)
      // Checked after getSample, which may have waited for a stream to end.
      if (source.requiresModelCall && this.#logs.get(sampleId)?.hasOutcome !== true) continue
      samples.set(sampleId, this.#withTranscript(complete(sampleId, sample)))
    }
    return samples
  }

  /**
   * The incomplete samples of a workflow that failed, to be shown to users: those that sources return within a second, and
   * for the others the messages on the wire. Never rejects.
   */
  partialSamples(): Promise<Map<string, RolloutSample>> {
    return this.#within([...new Set([...this.#sources.keys(), ...this.#logs.keys()])])
  }

  /**
   * As `samples`, but of a workflow that a limit has ended. Sources have a second to return them. Where there are none,
   * because the workflow would have returned its conversation, the messages on the wire are samples. Never rejects.
   */
  samplesSoFar(): Promise<Map<string, RolloutSample>> {
    if (this.#sources.size === 0) {
      const trained = [...this.#logs].flatMap(([id, log]) => (log.hasOutcome ? [id] : []))
      return this.#within(trained)
    }
    const given = [...this.#sources].flatMap(([id, { requiresModelCall }]) =>
      requiresModelCall && this.#logs.get(id)?.hasOutcome !== true ? [] : [id],
    )
    return this.#within(given)
  }

  /**
   * To be called when the workflow has ended and its samples are collected: a model call that failed where nobody noticed it, inside
   * a tool or an unread stream, must not look like a bad answer.
   *
   * @throws the error of that call, the one that a sample source returns, or OsmosisError with code `rollout_ended` when
   * somebody still waits for an answer
   */
  throwUnnoticedError(): void {
    if (this.misuse !== undefined) throw this.misuse
    for (const [id, source] of this.#sources) {
      const error = source.unnoticedError?.()
      if (error) throw error
      const failed = this.#failedCallOf(id, source)
      if (failed) throw notRecovered(id, failed)
    }
    for (const [id, { requiresModelCall }] of this.#sources) {
      const log = this.#logs.get(id)
      // Without any answer the agent gives no sample, and nothing of it is graded.
      if (requiresModelCall && log?.isAwaited && log.hasOutcome) throw unawaitedCall()
    }
  }

  /**
   * The model call that failed last, unless the agent made another one after it. What ends a workflow later is often
   * its consequence: a program knows an exit code, and code that catches what it makes of the answer.
   */
  get failedCall(): OsmosisError | undefined {
    for (const [id, source] of this.#sources) {
      const error = source.unnoticedError?.() ?? this.#failedCallOf(id, source)
      if (isOsmosisError(error)) return error
    }
    return undefined
  }

  #failedCallOf(id: string, { requiresModelCall }: SampleSource): Error | undefined {
    return requiresModelCall ? this.#logs.get(id)?.failures.latestError : undefined
  }

  async #within(ids: readonly string[]): Promise<Map<string, RolloutSample>> {
    const limit = AbortSignal.timeout(partialSamplesMs)
    const samples = await Promise.all(ids.map(async (id) => this.#partialSample(id, limit)))
    return new Map(samples.flatMap((sample) => (sample ? [[sample.id, sample]] : [])))
  }

  async #partialSample(id: string, limit: AbortSignal): Promise<RolloutSample | undefined> {
    const source = this.#sources.get(id)
    const hasCalls = (this.#logs.get(id)?.size ?? 0) > 0
    if (!hasCalls && (source === undefined || source.requiresModelCall)) return undefined
    const onTheWire = source === undefined && this.#logs.get(id)
    const { messages = [] } = (onTheWire && wireTranscript(onTheWire)) || {}
    let sample = toRolloutSample({ id, messages })
    try {
      if (source) sample = complete(id, await untilAborted(limit, async () => source.getSample(id)))
    } catch {
      // The workflow has already failed; the messages on the wire remain.
    }
    // A copy, because code that outlives its rollout may modify its lists.
    return this.#withTranscript({ ...sample, messages: [...sample.messages] })
  }

  #withTranscript(sample: RolloutSample): RolloutSample {
    const log = this.#logs.get(sample.id)
    const transcript = log && wireTranscript(log)
    if (transcript === undefined) return sample
    return {
      ...sample,
      trajectoryMessages: sample.trajectoryMessages ?? transcript.messages,
      // The indexes are not valid in the source's own messages.
      calls: sample.trajectoryMessages
        ? transcript.calls.map((call) => ({ ...call, answerIndex: null, instructions: null }))
        : transcript.calls,
      extraFields: withHistory(sample.extraFields, transcript),
    }
  }
}

/** Adds fields for rewritten histories and other conversations. The user's own fields override them. */
function withHistory(
  fields: RolloutSample['extraFields'],
  { otherConversations, historyRewritten }: WireTranscript,
): RolloutSample['extraFields'] {
  const own = copyOfFields(fields)
  if (!historyRewritten && otherConversations.length === 0) return own
  return Object.defineProperties(
    {
      ...(historyRewritten ? { history_rewritten: true } : {}),
      ...(otherConversations.length > 0 ? { other_conversations: otherConversations } : {}),
    },
    // Not read, because a getter of the user may throw.
    Object.getOwnPropertyDescriptors(own),
  )
}

/** The error of a call that the workflow did not end with. */
function notRecovered(sampleId: string, failed: Error): Error {
  if (!isOsmosisError(failed)) return failed
  const { code, message, status, endpointMessage, endpointCode, endpointType } = failed
  const said = { endpointMessage, endpointCode, endpointType }
  return new OsmosisError(
    code,
    `${message} The workflow returned all the same, but the agent of the sample "${sampleId}" has not recovered from this failed call.`,
    { cause: failed, ...said, ...(status === undefined ? {} : { status }) },
  )
}

function unawaitedCall(): OsmosisError {
  return new OsmosisError(
    'rollout_ended',
    'The workflow returned while the policy was answering: read streams to their end, and await everything the workflow starts.',
  )
}

/** Sources are user code: refuses values without messages, and fills in missing fields. */
function complete(id: string, sample: RolloutSample): RolloutSample {
  if (Array.isArray((sample as RolloutSample | null | undefined)?.messages)) {
    return { ...toRolloutSample({ id, messages: [] }), ...sample, id }
  }
  throw new TypeError(
    `The source of sample "${id}" must return an object with messages, e.g. from toRolloutSample().`,
  )
}
