import { errorMessage } from '@osmosis/core'
import { z } from 'zod'

import type { Logger } from '../logging/logger.ts'
import type { Callback, CallbackRecord, DeliveryOutcome } from './callback-delivery.ts'
import type { AppendOptions, OutboxFolder } from './outbox-folder.ts'

/** What is kept of a rollout when it is accepted. */
export interface Acceptance {
  readonly rolloutId: string
  /** What makes two requests the same rollout. */
  readonly key: string
  /** Of the body that was accepted. */
  readonly digest: string
  /** What a repeated request is answered: JSON. Null: it is not to be repeated. */
  readonly answer: string | null
  /** What is to be sent, in this order, when the process ends before there is anything else to send. */
  readonly ifInterrupted: readonly Callback[]
  /** SHA-256 of the token with which the result is fetched, in base64; null: it is sent. */
  readonly tokenDigest: string | null
}

/** The end of a rollout whose result is fetched. */
export interface KeptEnd {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result as it is answered: JSON. */
  readonly json: string
  /** Milliseconds since 1970. */
  readonly at: number
}

const callbackSchema = z.object({
  kind: z.string(),
  url: z.string(),
  api_key: z.string().nullable(),
  idempotency_key: z.string(),
  body: z.string(),
})

/** The first line of a record. */
const acceptanceSchema = z.object({
  line: z.literal('accepted'),
  /** Milliseconds since 1970. */
  at: z.number(),
  rollout_id: z.string(),
  key: z.string(),
  digest: z.string(),
  answer: z.string().nullable(),
  token_digest: z.base64().length(44).nullable(),
  if_interrupted: z.array(callbackSchema),
})

/** Every other line. */
const stepSchema = z.discriminatedUnion('line', [
  z.object({
    line: z.literal('callback'),
    callback: callbackSchema,
    if_interrupted: z.array(callbackSchema),
  }),
  z.object({
    line: z.literal('told'),
    idempotency_key: z.string(),
    outcome: z.enum(['acknowledged', 'refused']),
  }),
  z.object({
    line: z.literal('end'),
    at: z.number(),
    status: z.enum(['success', 'failure', 'cancelled']),
    reward: z.number().nullable(),
    error_message: z.string().nullable(),
    json: z.string(),
  }),
  /** Its workflow has ended well, and nothing was sent. */
  z.object({ line: z.literal('grading') }),
  z.object({ line: z.literal('fetched') }),
])

type Step = z.output<typeof stepSchema>

/** What a record is kept with. */
export interface RecordPlace {
  readonly folder: OutboxFolder
  /** Name of its file. */
  readonly name: string
  readonly logger: Logger
}

/**
 * What is known on disk of one rollout from its acceptance on, a line for each step, each written
 * before the world can see the step. Nothing here rejects: what cannot be written is logged, and
 * costs the safety of a restart.
 */
export class OutboxRecord implements CallbackRecord {
  readonly acceptance: Acceptance
  readonly #place: RecordPlace
  /** Callbacks that were built and have not arrived, in their order. */
  readonly #waiting = new Map<string, Callback>()
  #ifInterrupted: readonly Callback[]
  #latest: Callback | undefined
  #refused = false
  /** The last line may be half a line: readers leave that out, but none may follow it. */
  #torn = false
  #gone = false
  #grading = false
  #end: KeptEnd | undefined
  #fetched = false

  constructor(acceptance: Acceptance, place: RecordPlace) {
    this.acceptance = acceptance
    this.#ifInterrupted = acceptance.ifInterrupted
    this.#place = place
  }

  /** Callbacks that are still to arrive, when nothing else is found out about the rollout. */
  get untold(): Callback[] {
    return [...this.#waiting.values(), ...this.#ifInterrupted]
  }

  /** The last callback of all, when nothing else is found out about the rollout. */
  get last(): Callback | undefined {
    return this.#ifInterrupted.at(-1) ?? this.#latest
  }

  /** Whether a restart would end the rollout otherwise than it has ended, or will. */
  get undecided(): boolean {
    return this.#ifInterrupted.length > 0
  }

  get refused(): boolean {
    return this.#refused
  }

  /** Whether a rollout whose result is fetched has got as far as its grading. */
  get grading(): boolean {
    return this.#grading
  }

  get end(): KeptEnd | undefined {
    return this.#end
  }

  get fetched(): boolean {
    return this.#fetched
  }

  async keep(callback: Callback, ifInterrupted?: readonly Callback[]): Promise<Callback> {
    const { idempotencyKey } = callback
    const waiting = this.#waiting.get(idempotencyKey)
    if (waiting !== undefined) return waiting
    const next =
      ifInterrupted ??
      this.#ifInterrupted.filter((planned) => planned.idempotencyKey !== idempotencyKey)
    const if_interrupted = next.map(toEntry)
    const step = { line: 'callback', callback: toEntry(callback), if_interrupted } as const
    await this.#write(step, { sync: true })
    this.#waiting.set(idempotencyKey, callback)
    this.#latest = callback
    this.#ifInterrupted = next
    return callback
  }

  /** Notes what became of a callback. Not synced: to send it once more does no harm. */
  async told(callback: Callback, outcome: DeliveryOutcome): Promise<void> {
    if (outcome === 'gave_up') return
    const step = { line: 'told', idempotency_key: callback.idempotencyKey, outcome } as const
    await this.#write(step, { sync: false })
    this.#apply(step)
  }

  /** Notes how far it has got. Not synced: it only says what the failure of an interrupted one is. */
  async noteGrading(): Promise<void> {
    await this.#write({ line: 'grading' }, { sync: false })
  }

  /** Keeps a result before it can be fetched. */
  async keepEnd(end: Omit<KeptEnd, 'at'>): Promise<void> {
    const { status, reward, errorMessage: error_message, json } = end
    const step = { line: 'end', at: Date.now(), status, reward, error_message, json } as const
    await this.#write(step, { sync: true })
  }

  /** Notes that the result was handed out. */
  async noteFetched(): Promise<void> {
    if (this.#fetched) return
    this.#fetched = true
    await this.#write({ line: 'fetched' }, { sync: false })
  }

  /** It has been told in full, or was never accepted: nothing is left to keep. */
  async remove(): Promise<void> {
    this.#gone = true
    await this.#try('outbox is out of date', async ({ folder, name }) => folder.remove(name))
  }

  /** The receiver refused a part of it for good: it stays, for people, and is not sent again. */
  async setAside(): Promise<void> {
    this.#gone = true
    await this.#try('outbox is out of date', async ({ folder, name }) =>
      folder.rename(name, name.replace(/\.jsonl$/, '.refused')),
    )
  }

  /** Takes up a step that an earlier process wrote. */
  read(line: string): void {
    this.#apply(stepSchema.parse(JSON.parse(line)))
  }

  #apply(step: Step): void {
    if (step.line === 'callback') {
      const { rolloutId } = this.acceptance
      const callback = fromEntry(step.callback, rolloutId)
      this.#waiting.set(callback.idempotencyKey, callback)
      this.#latest = callback
      this.#ifInterrupted = step.if_interrupted.map((entry) => fromEntry(entry, rolloutId))
    } else if (step.line === 'told') {
      this.#waiting.delete(step.idempotency_key)
      if (step.outcome === 'refused') this.#refused = true
    } else if (step.line === 'end') {
      const { error_message, ...end } = step
      this.#end = { ...end, errorMessage: error_message }
    } else if (step.line === 'grading') this.#grading = true
    else this.#fetched = true
  }

  async #write(step: Step, options: AppendOptions): Promise<void> {
    if (this.#gone) return
    const text = `${JSON.stringify(step)}\n`
    const written =
      !this.#torn &&
      (await this.#try('outbox is out of date', async ({ folder, name }) =>
        folder.append(name, text, options),
      ))
    this.#torn = !written
    // Without this step, what the next process would tell could contradict what is told now.
    if (!written && options.sync) await this.remove()
  }

  async #try(what: string, act: (place: RecordPlace) => Promise<void>): Promise<boolean> {
    try {
      await act(this.#place)
      return true
    } catch (error) {
      const line = { rollout_id: this.acceptance.rolloutId, error }
      this.#place.logger.error(line, `${what}: ${errorMessage(error)}`)
      return false
    }
  }
}

/** The first line of the record of a rollout that is accepted. */
export function toFirstLine(acceptance: Acceptance): string {
  const line: z.input<typeof acceptanceSchema> = {
    line: 'accepted',
    at: Date.now(),
    rollout_id: acceptance.rolloutId,
    key: acceptance.key,
    digest: acceptance.digest,
    answer: acceptance.answer,
    token_digest: acceptance.tokenDigest,
    if_interrupted: acceptance.ifInterrupted.map(toEntry),
  }
  return `${JSON.stringify(line)}\n`
}

/**
 * Reads what an earlier process wrote.
 *
 * @param lines - whole lines of a record, at least one
 * @returns the record, and when it was accepted: milliseconds since 1970
 * @throws the error of the parser, whose text may quote keys
 */
export function readRecord(
  [first = '', ...steps]: readonly string[],
  place: RecordPlace,
): { record: OutboxRecord; at: number } {
  const accepted = acceptanceSchema.parse(JSON.parse(first))
  const { rollout_id: rolloutId, key, digest, answer, at } = accepted
  const acceptance = {
    rolloutId,
    key,
    digest,
    answer,
    tokenDigest: accepted.token_digest,
    ifInterrupted: accepted.if_interrupted.map((entry) => fromEntry(entry, rolloutId)),
  }
  const record = new OutboxRecord(acceptance, place)
  for (const step of steps) record.read(step)
  return { record, at }
}

function toEntry(callback: Callback): z.output<typeof callbackSchema> {
  const { kind, url, apiKey, idempotencyKey, body } = callback
  return { kind, url, api_key: apiKey, idempotency_key: idempotencyKey, body }
}

function fromEntry(entry: z.output<typeof callbackSchema>, rolloutId: string): Callback {
  const { kind, url, api_key: apiKey, idempotency_key: idempotencyKey, body } = entry
  return { rolloutId, kind, url, apiKey, idempotencyKey, body }
}
