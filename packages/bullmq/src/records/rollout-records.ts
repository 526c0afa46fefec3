import { portable } from '@osmosis/workers/messages'
import type { Redis } from 'ioredis'

import type { QueueConnection } from '../connection/queue-connection.ts'
import { RecordFields } from './stored-outcomes.ts'
import { deliveryScripts } from './record-scripts.ts'
import { KnownScripts, type RecordScript, type ScriptValue } from './script-library.ts'
import {
  readRecord,
  recordFields,
  storedCode,
  type QueueAcceptance,
  type AcceptLimits,
  type RolloutEntry,
  type RolloutRecord,
  type DeliveryKind,
} from './rollout-record.ts'

/** How long a record may be without a job: its acceptance was never answered then. Milliseconds. */
const jobless = 120_000
/** How long an ended rollout is known. Milliseconds. */
const endedForMs = 15 * 60_000

/**
 * What there is of rollouts in Redis: a hash each, the only truth about it. Everything else, jobs and
 * messages, is there to have somebody look at it. Times are those of the clock of Redis.
 *
 * All methods throw OsmosisError with code `queue_unavailable`.
 */
export class RolloutRecords {
  readonly #redis: Redis
  readonly #scripts: KnownScripts
  readonly #connection: QueueConnection

  constructor(connection: QueueConnection, redis: Redis) {
    this.#connection = connection
    this.#redis = redis
    this.#scripts = new KnownScripts(redis)
  }

  /**
   * Accepts a rollout, or says what stands under its id already.
   *
   * @param server - the one that delivers its outcome, and after how many milliseconds others do
   */
  async accept(
    entry: RolloutEntry,
    limits: AcceptLimits = {},
    server?: { readonly id: string; readonly ms: number },
  ): Promise<QueueAcceptance> {
    const { id, request, lease } = entry
    const { agentTimeoutSeconds: limit, queuedSeconds = 0 } = request
    const [result, answer] = (await this.run(deliveryScripts.accept, id, [
      entry.kind,
      entry.digest,
      entry.answer,
      storedCode(entry.code),
      entry.gradesAtOnce === true ? 1 : 0,
      limit === null ? '' : Math.round(Math.max(limit - queuedSeconds, 0) * 1000),
      limits.mostQueued ?? '',
      jobless,
      lease?.ms ?? '',
      lease?.tokenDigest ?? '',
      server?.id ?? '',
      server?.ms ?? '',
      this.seal(id, 'request', portable(request)),
      this.seal(id, 'delivery', portable(entry.delivery)),
    ])) as Buffer[]
    return {
      result: String(result) as QueueAcceptance['result'],
      answer: String(answer),
    }
  }

  /** Undefined for a rollout that is not known. */
  async read(id: string): Promise<RolloutRecord | undefined> {
    return (await this.readWith(id, []))?.record
  }

  /**
   * A rollout and more of its fields, as they are concurrently. Undefined for one that is not
   * known.
   */
  async readWith(
    id: string,
    fields: readonly string[],
  ): Promise<{ readonly record: RolloutRecord; readonly more: RecordFields } | undefined> {
    const all = [...recordFields, ...fields]
    const values = await this.ask((redis) => redis.hmgetBuffer(this.key(id), ...all))
    const small = values.slice(0, recordFields.length).map((value) => value?.toString() ?? null)
    const record = readRecord(id, small)
    if (record === undefined) return undefined
    const { errorMessage: sealed } = record
    const errorMessage =
      sealed === null ? null : (this.open(id, 'error', Buffer.from(sealed, 'base64')) as string)
    const more = new Map(fields.map((field, n) => [field, values[recordFields.length + n] ?? null]))
    return { record: { ...record, errorMessage }, more: new RecordFields(this, id, more) }
  }

  /**
   * The grader may begin: the outcome of the workflow has arrived where it had to.
   *
   * @param completion - the outcome of that callback, if it was delivered just now, and what its
   * acknowledgement said, for the trajectory documents
   * @returns whether the rollout has ended meanwhile
   */
  async allowGrading(
    id: string,
    completion: {
      readonly delivered?: string | undefined
      readonly report?: string | undefined
    } = {},
  ): Promise<boolean> {
    const { delivered = '', report = '' } = completion
    const sealed = report === '' ? '' : this.seal(id, 'report', report)
    return Number(await this.run(deliveryScripts.allowGrading, id, [delivered, sealed])) === 1
  }

  /**
   * Stores the body of a callback, which is never built again. Resolves with the body that was stored
   * first: the only one to be sent; undefined when it was delivered already.
   */
  async keepCallback<T>(id: string, kind: DeliveryKind, body: T): Promise<T | undefined> {
    const place = `callback:${kind}`
    const kept = await this.run(deliveryScripts.keepCallback, id, [
      kind,
      this.seal(id, place, body),
    ])
    if (kept === null) return undefined
    return Buffer.isBuffer(kept) ? (this.open(id, place, kept) as T) : body
  }

  /** A callback was delivered, or given up, for good. `how` is its `DeliveryOutcome`. */
  async noteDelivered(id: string, kind: DeliveryKind, how: string): Promise<void> {
    await this.run(deliveryScripts.noteDelivered, id, [kind, how])
  }

  /** Has the status of a rollout say this of its failure. */
  async rewordError(rolloutId: string, message: string): Promise<void> {
    const sealed = this.sealError(rolloutId, message)
    await this.run(deliveryScripts.rewordError, rolloutId, [sealed])
  }

  /** Something is still undelivered, whatever was delivered meanwhile. */
  async deliverLater(rolloutId: string): Promise<void> {
    await this.run(deliveryScripts.deliverLater, rolloutId)
  }

  /** A server is delivering the outcomes of these rollouts: for `ms` no other server is notified. */
  async postponeDelivery(rolloutIds: readonly string[], ms: number): Promise<void> {
    await this.run(deliveryScripts.postpone, 'any', [ms, ...rolloutIds])
  }

  /**
   * Everything is delivered: only what answers repetitions is stored, for `keepMs`.
   *
   * @param last - what was delivered last, if that is not noted yet
   */
  async finish(
    id: string,
    keepMs: number = endedForMs,
    last?: { readonly kind: DeliveryKind; readonly how: string },
  ): Promise<void> {
    await this.run(deliveryScripts.finish, id, [keepMs, last?.kind ?? '', last?.how ?? ''])
  }

  /** The key of the record. */
  key(id: string): string {
    return `${this.#connection.prefix}:rollout:${id}`
  }

  /** Errors quote prompts and keys. In base64, because it is read with the small fields. */
  sealError(id: string, message: string | null): string {
    return message === null ? '' : this.seal(id, 'error', message).toString('base64')
  }

  seal(id: string, field: string, value: unknown): Buffer {
    return this.#connection.keys.seal(value, `${field} of rollout ${id}`)
  }

  open(id: string, field: string, blob: Buffer): unknown {
    return this.#connection.keys.open(blob, `${field} of rollout ${id}`)
  }

  /** Takes one step of a record. */
  async run(
    script: RecordScript,
    id: string,
    values: readonly ScriptValue[] = [],
  ): Promise<unknown> {
    return this.ask(async () => this.#scripts.run(script, this.#valuesOf(id, values)))
  }

  /** Takes a step with a single message, so that it happens even if this process ends right after. */
  async runAtOnce(
    script: RecordScript,
    id: string,
    values: readonly ScriptValue[],
  ): Promise<unknown> {
    return this.ask(async () => this.#scripts.runWhole(script, this.#valuesOf(id, values)))
  }

  /** Asks Redis. */
  async ask<T>(question: (redis: Redis) => Promise<T>): Promise<T> {
    try {
      return await question(this.#redis)
    } catch (error) {
      throw this.#connection.unavailable(error)
    }
  }

  #valuesOf(id: string, values: readonly ScriptValue[]): ScriptValue[] {
    return [1, this.key(id), this.#connection.prefix, id, ...values]
  }
}
