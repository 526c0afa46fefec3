import type { z } from 'zod'

import { HttpRefusal, type BodyProblem } from './http-refusal.ts'

/** Nobody corrects more mistakes than this at once. */
const mostProblems = 100

/**
 * Checks a parsed body against its schema.
 *
 * @param elements - which elements the named lists of the body may have
 * @throws HttpRefusal 422 that names every problem and repeats nothing of the body
 */
export function checkBody<T>(
  schema: z.ZodType<T>,
  value: unknown,
  elements: Readonly<Record<string, (element: unknown) => boolean>> = {},
): T {
  const result = schema.safeParse(cutAfterFirstMisfit(value, elements))
  if (result.success) return result.data
  const issues = result.error.issues.slice(0, mostProblems)
  throw new HttpRefusal(
    422,
    issues.map((issue) => toProblem(issue, value)),
  )
}

function toProblem({ code, path, message }: z.core.$ZodIssue, body: unknown): BodyProblem {
  const loc = path.map((step) => (typeof step === 'symbol' ? String(step) : step))
  if (code === 'invalid_type' && isMissing(body, loc)) {
    return { type: 'missing', loc: ['body', ...loc], msg: 'Field required' }
  }
  const type = code === 'invalid_type' ? 'type_error' : 'value_error'
  return { type, loc: ['body', ...loc], msg: message }
}

function isMissing(body: unknown, loc: readonly (string | number)[]): boolean {
  let value = body
  for (const step of loc) value = (value as Record<string | number, unknown> | undefined)?.[step]
  return value === undefined
}

/**
 * The schema reports every wrong element of a list, and a body of ordinary size has room for
 * millions: more than the memory has for their reports. The first one is enough.
 */
function cutAfterFirstMisfit(
  value: unknown,
  elements: Readonly<Record<string, (element: unknown) => boolean>>,
): unknown {
  if (typeof value !== 'object' || value === null) return value
  let cut = value as Record<string, unknown>
  for (const [key, fits] of Object.entries(elements)) {
    const list: unknown = cut[key]
    const misfit = Array.isArray(list) ? list.findIndex((element) => !fits(element)) : -1
    if (misfit >= 0) cut = { ...cut, [key]: (list as unknown[]).slice(0, misfit + 1) }
  }
  return cut
}
