import { z } from 'zod'

/** A message to deliver: built once, and the same at each attempt. */
export interface Callback {
  /** For log lines. */
  readonly rolloutId: string
  /** For log lines: `completion`, `grader`. */
  readonly kind: string
  readonly url: string
  /** Bearer key; none is sent when it is null or empty. */
  readonly apiKey: string | null
  /** The same for every attempt, so that the receiver can recognise a retry. */
  readonly idempotencyKey: string
  /** JSON. */
  readonly body: string
  /**
   * Receives the body of the acknowledgement, unless it is longer than 64 MiB or incomplete. It is not
   * stored: if the next process delivers the callback, its acknowledgement has no receiver.
   */
  readonly onAcknowledged?: ((body: string) => void) | undefined
}

/** What is stored when a rollout is accepted. */
export interface OutboxAcceptance {
  readonly rolloutId: string
  /** What makes two requests the same rollout. */
  readonly key: string
  /** Of the accepted body. */
  readonly digest: string
  /** Answer to a repeated request: JSON. Null: requests cannot be repeated. */
  readonly answer: string | null
  /** Callbacks to send, in this order, when the process ends before the rollout has an outcome. */
  readonly ifInterrupted: readonly Callback[]
  /** SHA-256 of the lease token, in base64; null: results are sent by callbacks. */
  readonly tokenDigest: string | null
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

/** Lines that must be on the disk before their step is visible. */
const stepSchema = z.discriminatedUnion('line', [
  z.object({
    line: z.literal('callback'),
    callback: callbackSchema,
    if_interrupted: z.array(callbackSchema),
  }),
  z.object({
    line: z.literal('end'),
    at: z.number(),
    status: z.enum(['success', 'failure', 'cancelled']),
    reward: z.number().nullable(),
    error_message: z.string().nullable(),
    json: z.string(),
  }),
])

/** Lines whose loss does no harm. */
const noteSchema = z.discriminatedUnion('line', [
  z.object({
    line: z.literal('settled'),
    idempotency_key: z.string(),
    outcome: z.enum(['acknowledged', 'refused']),
  }),
  /** Its workflow succeeded, and no callback was sent. */
  z.object({ line: z.literal('grading') }),
  z.object({ line: z.literal('fetched') }),
])

const lineSchema = z.union([stepSchema, noteSchema])

export type Step = z.output<typeof stepSchema>
export type Note = z.output<typeof noteSchema>

/**
 * A line of a record. Its head comes first, because it is read without the rest.
 *
 * @param number - of steps that the record had before
 */
export function toLine(id: string, number: number, step: Step | Note): string {
  return `${JSON.stringify({ id, n: number, ...step })}\n`
}

/** The first line of a record. */
export function toFirstLine(id: string, acceptance: OutboxAcceptance): string {
  const { rolloutId, key, digest, answer, tokenDigest, ifInterrupted } = acceptance
  const line: z.input<typeof acceptanceSchema> = {
    line: 'accepted',
    at: Date.now(),
    rollout_id: rolloutId,
    key,
    digest,
    answer,
    token_digest: tokenDigest,
    if_interrupted: ifInterrupted.map(toEntry),
  }
  return `${JSON.stringify({ id, n: 0, ...line })}\n`
}

/** The line that ends a record, wherever it is. */
export function toLastLine(id: string): string {
  return `{"id":"${id}","n":0,"line":"over"}\n`
}

/** Kinds of notes. */
export const noteKinds: ReadonlySet<string> = new Set(['settled', 'grading', 'fetched'])

/** Kinds of all lines of live records. */
export const lineKinds: ReadonlySet<string> = new Set(['accepted', 'callback', 'end', ...noteKinds])

/** @throws the error of the parser, whose text may quote keys */
export function readFirstLine(text: string): { acceptance: OutboxAcceptance; at: number } {
  const accepted = acceptanceSchema.parse(JSON.parse(text))
  const { rollout_id: rolloutId, key, digest, answer, at } = accepted
  const ifInterrupted = accepted.if_interrupted.map((entry) => fromEntry(entry, rolloutId))
  const tokenDigest = accepted.token_digest
  return { acceptance: { rolloutId, key, digest, answer, tokenDigest, ifInterrupted }, at }
}

/** @throws the error of the parser, whose text may quote keys */
export function readLine(text: string): Step | Note {
  return lineSchema.parse(JSON.parse(text))
}

export function toEntry(callback: Callback): z.output<typeof callbackSchema> {
  const { kind, url, apiKey, idempotencyKey, body } = callback
  return { kind, url, api_key: apiKey, idempotency_key: idempotencyKey, body }
}

export function fromEntry(entry: z.output<typeof callbackSchema>, rolloutId: string): Callback {
  const { kind, url, api_key: apiKey, idempotency_key: idempotencyKey, body } = entry
  return { rolloutId, kind, url, apiKey, idempotencyKey, body }
}
