import { z } from 'zod'

/**
 * The requests and answers of the stand-in, as the models of the Python SDK (of August 2026) send and read them:
 * unknown fields are refused, and so are missing required ones.
 */
export interface Exchange {
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  readonly answer?: z.ZodType
}

/** Exchanges by method and route, in which `:` matches any segment. */
export type Contract = Readonly<Record<string, Exchange>>

export const text = z.string().min(1)
export const count = z.int().nonnegative()
const digits = z.string().regex(/^\d+$/)
export const noBody = z.strictObject({})
export const record = z.record(z.string(), z.unknown())
export const listQuery = z.strictObject({ limit: digits, offset: digits })
export const logQuery = z.strictObject({
  limit: digits,
  direction: z.enum(['older', 'newer']),
  cursor: text.optional(),
})
export const logs = z.strictObject({
  logs: z.array(
    z.strictObject({
      timestamp: text,
      level: text,
      step: z.string().optional(),
      message: text,
      details: record.nullish(),
    }),
  ),
  next_cursor: text.nullable(),
})

export function listOf(key: string, item: z.ZodType): z.ZodType {
  return z.strictObject({
    [key]: z.array(item),
    total_count: count,
    has_more: z.boolean(),
    next_offset: count.nullable(),
  })
}
