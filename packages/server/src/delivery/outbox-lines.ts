import { z } from 'zod'

import type { Callback } from './callback-delivery.ts'

/** What is kept of a rollout when it is accepted. */
export interface OutboxAcceptance {
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

/** What has to be on the disk before the world sees it. */
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

/** What does no harm when it is lost. */
const noteSchema = z.discriminatedUnion('line', [
  z.object({
    line: z.literal('told'),
    idempotency_key: z.string(),
    outcome: z.enum(['acknowledged', 'refused']),
  }),
  /** Its workflow has ended well, and nothing was sent. */
  z.object({ line: z.literal('grading') }),
  z.object({ line: z.literal('fetched') }),
])

const lineSchema = z.union([stepSchema, noteSchema])

export type Step = z.output<typeof stepSchema>
export type Note = z.output<typeof noteSchema>

/** Where a line belongs: its record, and how many steps that had before. */
export interface LinePlace {
  readonly id: string
  readonly number: number
}

/** A line of a record. What {@link LinePlace} has comes first: it is read without the rest. */
export function toLine({ id, number }: LinePlace, step: Step | Note): string {
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

/** Says that a record is over, whatever else there is of it. */
export function toLastLine(id: string): string {
  return `{"id":"${id}","n":0,"line":"over"}\n`
}

/** Kinds of those lines that are no steps. */
export const noteKinds: ReadonlySet<string> = new Set(['told', 'grading', 'fetched'])

/** Those of all lines that say something of a record that is not over. */
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
