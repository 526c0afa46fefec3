import type { RolloutContext } from './rollout-context.ts'
import { type RolloutSample, toRolloutSample } from './rollout-sample.ts'
import type { SampleSource } from './sample-registry.ts'
import { sharedByCopies } from './shared-by-copies.ts'

/** A model call in the messages of a framework: what was sent to the policy, and its answer. */
export interface NativeCall<TMessage> {
  readonly prompt: readonly TMessage[]
  /** Its place among the calls of the sample, counted from 1. */
  readonly number: number
  answer: TMessage | undefined
}

/** What a {@link NativeSample} has to know of a framework's messages. */
export interface NativeMessages<TMessage> {
  /** Whether a request repeats this message of an earlier call unchanged. */
  isSame(message: TMessage, earlier: TMessage | undefined): boolean
  /** The message as plain data, which is stored with the sample. */
  toStored(message: TMessage): unknown
}

/**
 * The sample of an agent in the messages of its framework, for adapters whose model gets the whole conversation
 * with each call. It is the conversation of the latest call.
 */
export class NativeSample<TMessage> implements SampleSource {
  readonly requiresModelCall = true
  readonly #messages: NativeMessages<TMessage>
  #latest: NativeCall<TMessage> | undefined
  #answered: NativeCall<TMessage> | undefined
  #started = 0

  constructor(messages: NativeMessages<TMessage>) {
    this.#messages = messages
  }

  /** Notes a call that is about to be made. */
  begin(prompt: readonly TMessage[]): NativeCall<TMessage> {
    const call = { prompt, number: (this.#started += 1), answer: undefined }
    this.#latest = call
    return call
  }

  succeed(call: NativeCall<TMessage>, answer: TMessage): void {
    call.answer = answer
    if (call.number > (this.#answered?.number ?? 0)) this.#answered = call
  }

  getSample(id: string): RolloutSample {
    const { prompt = [], answer } = this.#conversation ?? {}
    const messages = answer === undefined ? prompt : [...prompt, answer]
    return toRolloutSample({
      id,
      messages: messages.map((message) => this.#messages.toStored(message)),
    })
  }

  /** A call that repeats an answered one, and failed, does not replace its conversation. */
  get #conversation(): NativeCall<TMessage> | undefined {
    const [latest, answered] = [this.#latest, this.#answered]
    if (latest === undefined || answered === undefined || latest.answer !== undefined) return latest
    const known = [...answered.prompt, answered.answer]
    const repeats = latest.prompt.every((message, n) => this.#messages.isSame(message, known[n]))
    return repeats ? answered : latest
  }
}

type SharedSources = Map<string, { readonly kind: symbol; readonly source: SampleSource }>

const rollouts = sharedByCopies(
  'shared-sample-sources',
  () => new WeakMap<RolloutContext, SharedSources>(),
)

/**
 * The sample source of a name, registered with the rollout when it is new. For adapters in whose frameworks models
 * are made wherever they are needed, so that models of one name are one sample.
 *
 * @param options - `kind`: of the adapter, from `Symbol.for`; its sources are shared with no other adapter. `create`
 * makes a new source
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function sharedSampleSource<TSource extends SampleSource>(
  rollout: RolloutContext,
  name: string,
  { kind, create }: { readonly kind: symbol; readonly create: () => TSource },
): TSource {
  let sources = rollouts.get(rollout)
  if (sources === undefined) rollouts.set(rollout, (sources = new Map() as SharedSources))
  const known = sources.get(name)
  if (known?.kind === kind) return known.source as TSource
  const source = create()
  rollout.registerSampleSource(name, source)
  sources.set(name, { kind, source })
  return source
}
