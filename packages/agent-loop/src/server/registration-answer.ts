import { OsmosisError } from '@osmosis/core'
import { z } from 'zod'

import type { PlatformWords } from './registration-words.ts'

/** What the platform says of a server that it has registered. */
export interface Registration {
  /** Id of the registration; null when the platform gave none. */
  readonly id: string | null
  /** `healthy`, or another word of the platform; `unknown` when it said none. */
  readonly status: string
  /** Why the platform's health check of the server failed; null when it is healthy. */
  readonly error: string | null
}

// The server is registered whatever else the answer says, so only an answer that is no object at
// all is none.
const answerSchema = z.object({
  id: z.union([z.string(), z.number()]).nullish().catch(null),
  status: z.string().min(1).nullish().catch(null),
  health_check_result: z
    .object({ error: z.string().min(1).nullish().catch(null) })
    .nullish()
    .catch(null),
})

/**
 * Reads the answer to a registration.
 *
 * @throws OsmosisError with code `protocol_error` for one that is no JSON object
 */
export function readRegistration(text: string, url: string, words: PlatformWords): Registration {
  const answer = answerSchema.safeParse(parseJson(text))
  if (!answer.success) {
    throw new OsmosisError(
      'protocol_error',
      `The platform ${url} should answer a registration with a JSON object, got: ${words.quote(text.slice(0, 200)) || 'nothing'}`,
    )
  }
  const { id, status, health_check_result: check } = answer.data
  return {
    id: id === null || id === undefined ? null : words.quote(String(id)),
    status: words.quote(status ?? 'unknown'),
    error: status === 'healthy' ? null : words.quote(check?.error ?? 'Health check failed'),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
