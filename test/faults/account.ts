import type { Chance } from './chance.ts'
import { failsItself, type Plan } from './plan.ts'

/** What a caller receives about a rollout: one of two callbacks, or the result. */
export type DeliveryKind = 'completion' | 'grader' | 'result'

/** The fields of all these bodies that are checked. */
interface DeliveredBody {
  readonly rollout_id: string
  readonly status: string
  readonly err_message?: string | null
  readonly err_category?: string | null
  readonly error_message?: string | null
  readonly reward?: number | null
  readonly sample?: { readonly reward: number | null } | null
  readonly samples?: Readonly<Record<string, { readonly reward: number | null }>>
}

/** A failure as it was delivered. */
export interface DeliveredFailure {
  readonly plan: Plan
  readonly text: string
  /** Undefined in bodies without one. */
  readonly category: string | null | undefined
  readonly wasCancelled: boolean
  /** Number of model calls. */
  readonly calls: number
}

export interface AccountOptions {
  readonly chance: Chance
  /** Why a failure is implausible; undefined when it is plausible. Default: every failure is. */
  readonly doubt?: (failure: DeliveredFailure) => string | undefined
}

interface Entry {
  readonly plan: Plan
  readonly delivered: Map<DeliveryKind, string>
  /** The deliveries that the listener has finally answered. */
  readonly settled: Set<DeliveryKind>
  readonly answered: Set<number>
  /** Executions that have started, if rollouts report that, and those that have called the policy. */
  readonly started: Set<string>
  readonly called: Set<string>
  calls: number
  readonly ended: PromiseWithResolvers<void>
  admission: 'pending' | 'accepted' | 'unknown'
  wasCancelled: boolean
  /** Whether its caller asked to cancel it, and does not know what became of that. */
  mayBeCancelled: boolean
  end: string | undefined
  reward: number | null
}

/**
 * What callers know of all rollouts, independently of the server: their requests, the answers of the policy,
 * and the deliveries. The policy's answers decide which reward a rollout can have earned.
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

  /** Number of rollouts that have ended. */
  get endedCount(): number {
    return this.#endedCount
  }

  open(plan: Plan): void {
    const { harm, when } = plan.row
    if (harm !== undefined) this.fault(`code: ${harm} ${when}`)
    this.#entries.set(plan.id, {
      plan,
      delivered: new Map(),
      settled: new Set(),
      answered: new Set(),
      started: new Set(),
      called: new Set(),
      calls: 0,
      ended: Promise.withResolvers(),
      admission: 'pending',
      wasCancelled: false,
      mayBeCancelled: false,
      end: undefined,
      reward: null,
    })
  }

  accepted(id: string): void {
    this.#entry(id).admission = 'accepted'
  }

  /** The answer to the request was lost, and the request must not be repeated. */
  lost(id: string): void {
    const entry = this.#entry(id)
    entry.admission = 'unknown'
    entry.end ??= 'not known to be accepted'
  }

  /** The server reported that it had cancelled the rollout. */
  cancelled(id: string): void {
    const entry = this.#entry(id)
    entry.wasCancelled = true
    if (entry.end === 'success') this.violated(id, 'was cancelled, but succeeded')
  }

  /** The request to cancel the rollout got no answer, or one that says nothing of the rollout: a server may have done it. */
  perhapsCancelled(id: string): void {
    this.#entry(id).mayBeCancelled = true
  }

  /** Resolves when the last delivery has arrived. */
  async ended(id: string): Promise<void> {
    return this.#entry(id).ended.promise
  }

  fault(name: string): void {
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1)
  }

  violated(id: string, what: string): void {
    this.violations.push(`${id}: ${what}`)
  }

  /** The complete answer of the policy to this call. */
  answer(id: string, call: number): string {
    return this.#options.chance(id, 'answer', call).toFixed(6)
  }

  /** User code of a rollout has started in this execution. */
  started(id: string, run: string): void {
    const { started } = this.#entry(id)
    started.add(run)
    if (started.size > 1) this.fault(`workers: a rollout is started for the ${started.size}. time`)
  }

  /**
   * Whether this process executes, for the first time, a rollout that has not called the policy yet and waits this long
   * (in milliseconds) before its first call: another process may start it again.
   */
  holdsUncalled(pid: number | undefined, idleMs: number): boolean {
    return [...this.#entries.values()].some(
      ({ plan, started, called, end }) =>
        end === undefined &&
        called.size === 0 &&
        started.size === 1 &&
        (plan.row.idleMs ?? 0) >= idleMs &&
        [...started].every((run) => run.startsWith(`${pid}-`)),
    )
  }

  /** The policy was called. */
  called(id: string, run: string): void {
    const entry = this.#entry(id)
    entry.calls += 1
    entry.called.add(run)
    if (entry.called.size > 1)
      this.violated(id, `called the policy in two executions: ${[...entry.called].join()}`)
    if (entry.delivered.size > 0) this.fault('workers: call the policy for an ended rollout')
  }

  /** The policy gave the whole answer. */
  answered(id: string, call: number): void {
    this.#entry(id).answered.add(call)
  }

  delivered(id: string, kind: DeliveryKind, text: string): void {
    const entry = this.#entry(id)
    const before = entry.delivered.get(kind)
    if (before !== undefined) {
      if (before !== text) this.violated(id, `${kind} was delivered as ${before} and as ${text}`)
      return
    }
    entry.delivered.set(kind, text)
    const body = JSON.parse(text) as DeliveredBody
    if (body.rollout_id !== id) this.violated(id, `received the outcome of ${body.rollout_id}`)
    if (kind === 'grader') this.#checkOrder(entry, body)
    if (kind !== (entry.plan.graded ? 'completion' : 'grader')) this.#end(entry, kind, body)
  }

  /** The caller could not wait for the rollout; this is the outcome from the status route. */
  lookedUp(id: string, { status, reward }: { status: string; reward: number | null }): void {
    const entry = this.#entry(id)
    if (entry.end !== undefined) return
    this.#end(entry, 'result', { rollout_id: id, status, err_message: 'looked up', reward })
  }

  /** A listener has given an answer after which the callback is not sent again. */
  settled(id: string, kind: DeliveryKind): void {
    this.#entry(id).settled.add(kind)
  }

  /** Compares the status route with the outcome of a rollout. */
  checkState(id: string, { status, reward }: { status: string; reward: number | null }): void {
    const { end = '', reward: known, wasCancelled, mayBeCancelled } = this.#entry(id)
    const isCancelled = status === 'cancelled' && (wasCancelled || mayBeCancelled)
    const isSame = end.startsWith(status) || isCancelled
    if (isSame && reward === known) return
    this.violated(id, `ended with ${end} (${known}), but its status is ${status} (${reward})`)
  }

  /** All rollouts with their outcomes. */
  *ends(): Generator<{ plan: Plan; end: string | undefined; admission: Entry['admission'] }> {
    for (const { plan, end, admission } of this.#entries.values()) yield { plan, end, admission }
  }

  #checkOrder({ plan: { id }, delivered, settled }: Entry, grader: DeliveredBody): void {
    if (!settled.has('completion'))
      this.violated(id, 'was graded before its completion had arrived')
    const first = delivered.get('completion')
    if (first === undefined)
      return this.violated(id, 'its grading was delivered before its completion')
    const completion = JSON.parse(first) as DeliveredBody
    if (completion.status === 'success') return undefined
    if (grader.status === 'failure' && grader.err_message === completion.err_message)
      return undefined
    return this.violated(id, `failed, but its grading differs: ${first}`)
  }

  #end(entry: Entry, kind: DeliveryKind, body: DeliveredBody): void {
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
        graded ? 'succeeded without a reward' : 'has a reward that its caller did not request',
      )
    }
    if (succeeded && wasCancelled) this.violated(id, 'was cancelled, but succeeded')
    if (!succeeded) this.#checkCause(entry, text, body.err_category)
    if (reward === null) return
    if (!succeeded) this.violated(id, `failed, but has the reward ${reward}`)
    if (failsItself(plan)) this.violated(id, `does ${row.harm}, but has the reward ${reward}`)
    const whole = Array.from({ length: row.calls }, (_, call) => call).every((call) =>
      answered.has(call),
    )
    if (!whole)
      this.violated(id, `has the reward ${reward}, but the policy did not give all answers`)
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
    if (entry === undefined) throw new Error(`no caller sent ${id}`)
    return entry
  }
}

/** The kind of a failure, without its details. */
function inShort(text: string): string {
  return text
    .replace(/https?:\/\/\S+/g, '<url>')
    .replace(/\s*\(at [^)]*\)/, '')
    .replace(/\d+(\.\d+)?/g, 'n')
    .slice(0, 64)
}
