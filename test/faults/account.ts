import type { Chance } from './chance.ts'
import { failsItself, type Plan } from './plan.ts'

/** What a caller was told of a rollout: one of two callbacks, or the one result. */
export type DeliveryKind = 'completion' | 'grader' | 'result'

/** The parts of all of these bodies that are judged. */
interface ToldBody {
  readonly rollout_id: string
  readonly status: string
  readonly err_message?: string | null
  readonly err_category?: string | null
  readonly error_message?: string | null
  readonly reward?: number | null
  readonly sample?: { readonly reward: number | null } | null
  readonly samples?: Readonly<Record<string, { readonly reward: number | null }>>
}

/** A failure as it was told. */
export interface ToldFailure {
  readonly plan: Plan
  readonly text: string
  /** Undefined where callers are not told. */
  readonly category: string | null | undefined
  readonly wasCancelled: boolean
  /** How often the policy was asked. */
  readonly calls: number
}

export interface AccountOptions {
  readonly chance: Chance
  /** Why a failure cannot be what it says; undefined when it can. Default: any can. */
  readonly doubt?: (failure: ToldFailure) => string | undefined
}

interface Entry {
  readonly plan: Plan
  readonly told: Map<DeliveryKind, string>
  /** What a listener has answered for good. */
  readonly settled: Set<DeliveryKind>
  readonly answered: Set<number>
  /** Runs that have started, where rollouts note that, and those that have asked the policy. */
  readonly started: Set<string>
  readonly asked: Set<string>
  calls: number
  readonly ended: PromiseWithResolvers<void>
  admission: 'pending' | 'accepted' | 'unknown'
  wasCancelled: boolean
  end: string | undefined
  reward: number | null
}

/**
 * What callers saw of all rollouts, kept apart from the server: what they sent, what the policy said,
 * what they were told. It knows which reward a rollout can have earned, because the policy's answers
 * decide that.
 */
export class Account {
  readonly violations: string[] = []
  readonly faults = new Map<string, number>()
  readonly #entries = new Map<string, Entry>()
  readonly #options: AccountOptions
  #endedCount = 0

  constructor(options: AccountOptions) {
    this.#options = options
  }

  /** How many rollouts are over. */
  get endedCount(): number {
    return this.#endedCount
  }

  open(plan: Plan): void {
    const { harm, when } = plan.row
    if (harm !== undefined) this.fault(`code: ${harm} ${when}`)
    this.#entries.set(plan.id, {
      plan,
      told: new Map(),
      settled: new Set(),
      answered: new Set(),
      started: new Set(),
      asked: new Set(),
      calls: 0,
      ended: Promise.withResolvers(),
      admission: 'pending',
      wasCancelled: false,
      end: undefined,
      reward: null,
    })
  }

  accepted(id: string): void {
    this.#entry(id).admission = 'accepted'
  }

  /** The answer to the order was lost, and it must not be sent again. */
  lost(id: string): void {
    const entry = this.#entry(id)
    entry.admission = 'unknown'
    entry.end ??= 'not known to be accepted'
  }

  /** The server said that it had ended it. */
  cancelled(id: string): void {
    const entry = this.#entry(id)
    entry.wasCancelled = true
    if (entry.end === 'success') this.violated(id, 'was cancelled, and has succeeded')
  }

  /** Resolves when the caller was told all there is. */
  async ended(id: string): Promise<void> {
    return this.#entry(id).ended.promise
  }

  fault(name: string): void {
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1)
  }

  violated(id: string, what: string): void {
    this.violations.push(`${id}: ${what}`)
  }

  /** What the policy says in this call, if it says it all. */
  answer(id: string, call: number): string {
    return this.#options.chance(id, 'answer', call).toFixed(6)
  }

  /** The code of a rollout has started, in this run. */
  started(id: string, run: string): void {
    const { started } = this.#entry(id)
    started.add(run)
    if (started.size > 1) this.fault(`workers: a rollout is started for the ${started.size}. time`)
  }

  /** The policy was asked. */
  asked(id: string, run: string): void {
    const entry = this.#entry(id)
    entry.calls += 1
    entry.asked.add(run)
    if (entry.asked.size > 1)
      this.violated(id, `asked the policy in two runs: ${[...entry.asked].join()}`)
    if (entry.told.size > 0) this.fault('workers: ask for a rollout that has ended')
  }

  /** The policy gave the whole answer. */
  answered(id: string, call: number): void {
    this.#entry(id).answered.add(call)
  }

  told(id: string, kind: DeliveryKind, text: string): void {
    const entry = this.#entry(id)
    const before = entry.told.get(kind)
    if (before !== undefined) {
      if (before !== text) this.violated(id, `${kind} was told as ${before} and as ${text}`)
      return
    }
    entry.told.set(kind, text)
    const body = JSON.parse(text) as ToldBody
    if (body.rollout_id !== id) this.violated(id, `was told of ${body.rollout_id}`)
    if (kind === 'grader') this.#checkOrder(entry, body)
    if (kind !== (entry.plan.graded ? 'completion' : 'grader')) this.#end(entry, kind, body)
  }

  /** The caller could not follow the rollout; this is what the server knows of its end. */
  lookedUp(id: string, { status, reward }: { status: string; reward: number | null }): void {
    const entry = this.#entry(id)
    if (entry.end !== undefined) return
    this.#end(entry, 'result', { rollout_id: id, status, err_message: 'looked up', reward })
  }

  /** A listener gave an answer after which nothing is sent again. */
  settled(id: string, kind: DeliveryKind): void {
    this.#entry(id).settled.add(kind)
  }

  /** What the status route says of a rollout that has ended. */
  checkState(id: string, { status, reward }: { status: string; reward: number | null }): void {
    const { end = '', reward: known, wasCancelled } = this.#entry(id)
    const isSame = end.startsWith(status) || (status === 'cancelled' && wasCancelled)
    if (isSame && reward === known) return
    this.violated(id, `ended with ${end} (${known}), and its status is ${status} (${reward})`)
  }

  /** Those whose end was told, with what it was. */
  *ends(): Generator<{ plan: Plan; end: string | undefined; admission: Entry['admission'] }> {
    for (const { plan, end, admission } of this.#entries.values()) yield { plan, end, admission }
  }

  #checkOrder({ plan: { id }, told, settled }: Entry, grader: ToldBody): void {
    if (!settled.has('completion'))
      this.violated(id, 'was graded before its completion had arrived')
    const first = told.get('completion')
    if (first === undefined) return this.violated(id, 'its grading was told before its completion')
    const completion = JSON.parse(first) as ToldBody
    if (completion.status === 'success') return undefined
    if (grader.status === 'failure' && grader.err_message === completion.err_message)
      return undefined
    return this.violated(id, `failed, and its grading says something else: ${first}`)
  }

  #end(entry: Entry, kind: DeliveryKind, body: ToldBody): void {
    const { plan, wasCancelled, answered } = entry
    const { id, graded, row } = plan
    const rewards = [
      body.reward,
      body.sample?.reward,
      ...Object.values(body.samples ?? {}).map((sample) => sample.reward),
    ]
    const given = [...new Set(rewards.filter((one) => typeof one === 'number'))]
    const succeeded = body.status === 'success' || body.status === 'COMPLETED'
    const reward = given[0] ?? null
    entry.reward = reward
    this.#endedCount += 1
    const text = body.err_message ?? body.error_message ?? ''
    entry.end = succeeded
      ? 'success'
      : `${body.status === 'cancelled' ? 'cancelled' : 'failure'}: ${inShort(text)}`
    entry.ended.resolve()

    if (given.length > 1) this.violated(id, `has several rewards: ${given.join()}`)
    if (succeeded && graded !== (reward !== null) && kind !== 'completion') {
      this.violated(
        id,
        graded ? 'succeeded without a reward' : 'has a reward that nobody asked for',
      )
    }
    if (succeeded && wasCancelled) this.violated(id, 'was cancelled, and has succeeded')
    if (!succeeded) this.#checkCause(entry, text, body.err_category)
    if (reward === null) return
    if (!succeeded) this.violated(id, `failed, and has the reward ${reward}`)
    if (failsItself(plan)) this.violated(id, `does ${row.harm}, and has the reward ${reward}`)
    const whole = Array.from({ length: row.calls }, (_, call) => call).every((call) =>
      answered.has(call),
    )
    if (!whole) this.violated(id, `has the reward ${reward}, and the policy never gave all answers`)
    if (reward !== Number(this.answer(id, row.calls - 1))) {
      this.violated(id, `has the reward ${reward}, which it did not earn`)
    }
  }

  #checkCause(
    { plan, wasCancelled, calls }: Entry,
    text: string,
    category: string | null | undefined,
  ): void {
    const doubt = this.#options.doubt?.({ plan, text, category, wasCancelled, calls })
    if (doubt !== undefined) this.violated(plan.id, `${doubt}: ${text} (${category})`)
  }

  #entry(id: string): Entry {
    const entry = this.#entries.get(id)
    if (entry === undefined) throw new Error(`nobody sent ${id}`)
    return entry
  }
}

/** The kind of a failure, without what is particular to one. */
function inShort(text: string): string {
  return text
    .replace(/https?:\/\/\S+/g, '<url>')
    .replace(/\s*\(at [^)]*\)/, '')
    .replace(/\d+(\.\d+)?/g, 'n')
    .slice(0, 64)
}
