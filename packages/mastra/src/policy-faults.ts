import { isDeepStrictEqual } from 'node:util'

import { MastraError } from '@mastra/core/error'
import type { PolicyFault, RolloutContext } from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'

const aboutOutputs = new Set([
  'STRUCTURED_OUTPUT_SCHEMA_VALIDATION_FAILED',
  'STRUCTURED_OUTPUT_TRUNCATED',
])

/**
 * The fault that an error of Mastra reports, if the value that it quotes is in an answer of the policy. Mastra can
 * have another model make the object.
 */
export function mastraFault(error: Error, rollout: RolloutContext): PolicyFault | undefined {
  if (!(error instanceof MastraError) || !aboutOutputs.has(error.id)) return undefined
  const value: unknown = error.details?.['value']
  if (typeof value !== 'string') return undefined
  const isAbout = recordOf(rollout).answers.some(
    ({ content }) => typeof content === 'string' && hasValue(content, value),
  )
  return isAbout ? { error: 'output' } : undefined
}

/** Whether a text has the value, which Mastra quotes as it was written or as the JSON of what it read. */
function hasValue(text: string, quoted: string): boolean {
  if (quoted.trim() !== '' && text.includes(quoted.trim())) return true
  const [from, to] = [text.search(/[[{]/), Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))]
  if (from < 0 || to < from) return false
  try {
    return isDeepStrictEqual(JSON.parse(text.slice(from, to + 1)), JSON.parse(quoted))
  } catch {
    return false
  }
}
