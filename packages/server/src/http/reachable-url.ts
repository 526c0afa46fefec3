import type { EgressPolicy } from '@osmosis/core/http'
import type { z } from 'zod'

/**
 * A schema for a URL that the server is going to connect to: what is known to be refused is
 * refused with the body, and not when somebody waits for a result.
 */
export function reachableUrl<Schema extends z.ZodType<string | null | undefined>>(
  schema: Schema,
  egress: EgressPolicy,
): Schema {
  const refusal = (url: unknown): string | undefined =>
    typeof url === 'string' ? egress.refusal(url) : undefined
  return schema.refine((url) => refusal(url) === undefined, {
    error: ({ input }) => `this server does not connect there: ${refusal(input)}`,
  })
}
