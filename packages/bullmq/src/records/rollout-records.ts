import { portable } from '@osmosis/server/child'
import type { Redis } from 'ioredis'

import type { QueueConnection } from '../connection/queue-connection.ts'
import { Replication } from '../connection/replication.ts'
import { deliveryScripts } from './record-scripts.ts'
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
import { KnownScripts, type RecordScript, type ScriptValue } from './script-library.ts'
import { RecordFields } from './stored-outcomes.ts'

/** How long a record may be without a job before its acceptance counts as unanswered. Milliseconds. */
const jobless = 120_000
/** How long an ended rollout is remembered. Milliseconds. */
const endedForMs = 15 * 60_000

/**
 * The records of rollouts in Redis, one hash each. The record decides; jobs and messages are only hints to
 * read it. Times are those of the clock of Redis.
 *
 * All methods throw OsmosisError with code `queue_unavailable`.
 */
export class RolloutRecords {
  /** Whether replicas have what is stored. */
  readonly replication: Replication
  readonly #redis: Redis
  readonly #scripts: KnownScripts
  readonly #connection: QueueConnection

  constructor(connection: QueueConnection, redis: Redis) {
    this.#connection = connection
    this.#redis = redis
    this.#scripts = new KnownScripts(redis)
    const { prefix, address } = connection
    this.replication = new Replication(redis, `${prefix}:replicated`, address)
  }

  /** Reads or stores something that a caller is told, and resolves when it survives a failover. */
  async replicated<T>(act: () => Promise<T>): Promise<T> {
    const { since } = this.replication
    const result = await act()
    await this.replication.confirm(since)
    return result
  }

  /**
   * Accepts a rollout, unless its id is taken.
   *
   * @param server - the server that delivers its outcome, and after how many milliseconds others do
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

  /** Undefined for an unknown rollout. */
  async read(id: string): Promise<RolloutRecord | undefined> {
    return (await this.readWith(id, []))?.record
  }

  /**
   * A rollout and more of its fields, read in one step. Undefined for an unknown rollout.
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
   * Allows the grader to start, because the outcome of the workflow was delivered.
   *
   * @param completion - how the callback was delivered, if that is not recorded yet, and the body of its
   * acknowledgement, for the trajectory documents
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
   * Stores the body of a callback. Resolves with the body that was stored first, which is the only one to
   * send; undefined when the callback was already delivered.
   */
  async storeCallback<T>(id: string, kind: DeliveryKind, body: T): Promise<T | undefined> {
    const place = `callback:${kind}`
    const values = [kind, this.seal(id, place, body)]
    const first = await this.run(deliveryScripts.storeCallback, id, values)
    if (first === null) return undefined
    return Buffer.isBuffer(first) ? (this.open(id, place, first) as T) : body
  }

  /** Records that a callback was delivered or finally given up. `how` is its `DeliveryOutcome`. */
  async noteDelivered(id: string, kind: DeliveryKind, how: string): Promise<void> {
    await this.run(deliveryScripts.noteDelivered, id, [kind, how])
  }

  /** Replaces the error message in the status of a rollout. */
  async rewordError(rolloutId: string, message: string): Promise<void> {
    const sealed = this.sealError(rolloutId, message)
    await this.run(deliveryScripts.rewordError, rolloutId, [sealed])
  }

  /** Records that a callback is still pending. */
  async deliverLater(rolloutId: string): Promise<void> {
    await this.run(deliveryScripts.deliverLater, rolloutId)
  }

  /** A server is delivering the outcomes of these rollouts: for `ms` no other server is notified. */
  async postponeDelivery(rolloutIds: readonly string[], ms: number): Promise<void> {
    await this.run(deliveryScripts.postpone, 'any', [ms, ...rolloutIds])
  }

  /**
   * Records that everything is delivered. Only the fields for repeated requests stay, for `keepMs`.
   *
   * @param last - the last delivery, if it is not recorded yet
   */
  async finish(
    id: string,
    keepMs: number = endedForMs,
    last?: { readonly kind: DeliveryKind; readonly how: string },
  ): Promise<void> {
    await this.run(deliveryScripts.finish, id, [keepMs, last?.kind ?? '', last?.how ?? ''])
  }

  /** The time of all records, which is that of the clock of Redis. Milliseconds since 1970. */
  async now(): Promise<number> {
    const [seconds = '0', microseconds = '0'] = await this.ask(async (redis) => redis.time())
    return Number(seconds) * 1000 + Number(microseconds) / 1000
  }

  /** The code for which a rollout was accepted, as it is stored; undefined for an unknown rollout. */
  async codeOf(id: string): Promise<string | undefined> {
    return (await this.ask((redis) => redis.hget(this.key(id), 'code'))) ?? undefined
  }

  /** The key of the record. */
  key(id: string): string {
    return `${this.#connection.prefix}:rollout:${id}`
  }

  /** Seals an error message, which may quote prompts and keys. In base64, because it is read as text. */
  sealError(id: string, message: string | null): string {
    return message === null ? '' : this.seal(id, 'error', message).toString('base64')
  }

  seal(id: string, field: string, value: unknown): Buffer {
    return this.#connection.keys.seal(value, `${field} of rollout ${id}`)
  }

  /** See `QueueKeys`. */
  get heads(): readonly Buffer[] {
    return this.#connection.keys.heads
  }

  open(id: string, field: string, blob: Buffer): unknown {
    return this.#connection.keys.open(blob, `${field} of rollout ${id}`)
  }

  /** Runs a script on a record. */
  async run(
    script: RecordScript,
    id: string,
    values: readonly ScriptValue[] = [],
  ): Promise<unknown> {
    return this.ask(async () => this.#scripts.run(script, this.#valuesOf(id, values)))
  }

  /** Runs a script with a single message, so that it runs even if this process exits right after. */
  async runAtOnce(
    script: RecordScript,
    id: string,
    values: readonly ScriptValue[],
  ): Promise<unknown> {
    return this.ask(async () => this.#scripts.runWhole(script, this.#valuesOf(id, values)))
  }

  /** Calls Redis. */
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
