import { OsmosisError } from './errors.ts'
import { untilAborted } from './http/until-aborted.ts'
import { assertHeaderSafeId } from './identifiers.ts'
import { CallLog, type PolicyCall } from './policy/call-log.ts'
import { wireTranscript, type WireTranscript } from './policy/transcript.ts'
import { copyOfFields, toRolloutSample, type RolloutSample } from './rollout-sample.ts'

/** Holds a conversation and returns it as a sample when asked; adapters register one per agent. */
export interface SampleSource {
  /** Called when the workflow has ended; the sample may hold everything up to then. */
  getSample(sampleId: string): RolloutSample | Promise<RolloutSample>
  /**
   * True for a source that stands for an agent, as those of adapters do: it gives a sample only when
   * a model call under its id has ended, be it with an error. An agent that was made and never ran
   * would otherwise count as a wrong answer. Default: false, the source always gives a sample.
   */
  readonly requiresModelCall?: boolean
  /**
   * For frameworks whose streams may be left unread: the error that the latest model call of the
   * sample ended with inside a stream, where the workflow may not have noticed it. Asked after
   * `getSample`, when the workflow is done; the rollout fails with what is returned.
   */
  unnoticedError?(): Error | undefined
}

/** The samples of one rollout: who can produce them, and what was said under each id. */
export class SampleRegistry {
  readonly #sources = new Map<string, SampleSource>()
  readonly #logs = new Map<string, CallLog>()

  register(sampleId: string, source: SampleSource): void {
    assertHeaderSafeId('sample', sampleId)
    if (this.#sources.has(sampleId)) {
      throw new OsmosisError(
        'duplicate_sample',
        `A sample named "${sampleId}" is already registered in this rollout. Give every agent or session of the workflow a name of its own.`,
      )
    }
    this.#sources.set(sampleId, source)
  }

  log(sampleId: string): CallLog {
    const known = this.#logs.get(sampleId)
    if (known) return known
    assertHeaderSafeId('sample', sampleId)
    const log = new CallLog()
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

  /** The finished calls under ids that gave none of these samples. */
  callsOutside(samples: ReadonlyMap<string, RolloutSample>): PolicyCall[] {
    const outside: PolicyCall[] = []
    for (const [sampleId, { calls }] of this.#logs) {
      if (samples.has(sampleId)) continue
      for (const { settled } of calls) outside.push({ ...settled, answerIndex: null })
    }
    return outside
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
      // Only now: the source may have waited for a stream to end.
      if (source.requiresModelCall && !this.#logs.get(sampleId)?.calls.length) continue
      samples.set(sampleId, this.#withTranscript(complete(sampleId, sample)))
    }
    return samples
  }

  /**
   * What there is of the samples when the workflow did not get to its end: what sources still
   * answer until `limit` aborts, and for the others what went over the wire. Never rejects.
   */
  async partialSamples(limit: AbortSignal): Promise<Map<string, RolloutSample>> {
    const ids = [...new Set([...this.#sources.keys(), ...this.#logs.keys()])]
    const samples = await Promise.all(ids.map(async (id) => this.#partialSample(id, limit)))
    return new Map(samples.flatMap((sample) => (sample ? [[sample.id, sample]] : [])))
  }

  /** The first error that a source has and that the workflow may not have noticed. */
  unnoticedError(): Error | undefined {
    for (const source of this.#sources.values()) {
      const error = source.unnoticedError?.()
      if (error) return error
    }
    return undefined
  }

  async #partialSample(id: string, limit: AbortSignal): Promise<RolloutSample | undefined> {
    const source = this.#sources.get(id)
    const wasAsked = (this.#logs.get(id)?.size ?? 0) > 0
    if (!wasAsked && (source === undefined || source.requiresModelCall)) return undefined
    let sample = toRolloutSample({ id, messages: [] })
    try {
      if (source) sample = complete(id, await untilAborted(limit, async () => source.getSample(id)))
    } catch {
      // The workflow has failed already, and what went over the wire says as much.
    }
    // Code that outlives its rollout may still write into its lists.
    return this.#withTranscript({ ...sample, messages: [...sample.messages] })
  }

  #withTranscript(sample: RolloutSample): RolloutSample {
    const log = this.#logs.get(sample.id)
    const transcript = log && wireTranscript(log)
    if (transcript === undefined) return sample
    return {
      ...sample,
      trajectoryMessages: sample.trajectoryMessages ?? transcript.messages,
      // In messages of the source's own the answers have other places.
      calls: sample.trajectoryMessages
        ? transcript.calls.map((call) => ({ ...call, answerIndex: null }))
        : transcript.calls,
      extraFields: withHistory(sample.extraFields, transcript),
    }
  }
}

/** What is not a plain continuation is told beside the user's own fields, which win. */
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
    // Not read here: a getter of the user's may throw.
    Object.getOwnPropertyDescriptors(own),
  )
}

/** Sources are user code: values without messages are refused, missing fields are filled in. */
function complete(id: string, sample: RolloutSample): RolloutSample {
  if (Array.isArray((sample as RolloutSample | null | undefined)?.messages)) {
    return { ...toRolloutSample({ id, messages: [] }), ...sample, id }
  }
  throw new TypeError(
    `The source of sample "${id}" must return an object with messages, e.g. from toRolloutSample().`,
  )
}
