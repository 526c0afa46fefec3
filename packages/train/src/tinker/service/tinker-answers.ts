import { OsmosisError } from '@osmosis/core'
import { z } from 'zod'

export const sessionSchema = z.object({ session_id: z.string() })
export const modelSchema = z.object({ model_id: z.string() })
export const infoSchema = z.object({
  model_data: z.object({ tokenizer_id: z.string().nullish() }).nullish(),
})
export const sampledSchema = z.object({
  sequences: z.array(z.object({ tokens: z.array(z.int()), logprobs: z.array(z.number()) })).min(1),
})
export const forwardSchema = z.object({
  loss_fn_outputs: z.array(z.object({ logprobs: z.object({ data: z.array(z.number()) }) })),
})
export const savedSchema = z.object({
  sampling_session_id: z.string().nullish(),
  path: z.string().nullish(),
})
export const checkpointSchema = z.object({
  path: z.string(),
  version: z.int(),
})

/** @throws OsmosisError with code `learner_error` for an answer of another form */
export function parsed<T>(route: string, schema: z.ZodType<T>, answer: unknown): T {
  const found = schema.safeParse(answer)
  if (found.success) return found.data
  throw new OsmosisError(
    'learner_error',
    `The answer of the Tinker service to ${route} cannot be read: ${z.prettifyError(found.error)}`,
  )
}
