import { OsmosisError } from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/runtime'

const key = 'osmosis_priority'
const lowest = 2_097_152

/**
 * The place of a rollout in the queue, as `osmosis_priority` of its metadata has it: a whole number from 1
 * to 2,097,152. Rollouts without one come first, then those with 1, and so on; equal ones come in their
 * order.
 *
 * @throws OsmosisError with code `invalid_request`
 */
export function queuePriority({ metadata }: Pick<RolloutRequest, 'metadata'>): number | undefined {
  const priority = metadata?.[key] ?? undefined
  if (priority === undefined) return undefined
  if (typeof priority === 'number' && Number.isInteger(priority)) {
    if (priority >= 1 && priority <= lowest) return priority
  }
  throw new OsmosisError(
    'invalid_request',
    `${key} of the metadata must be a whole number from 1 to ${lowest}, got ${JSON.stringify(priority)}. Leave it out to come first.`,
  )
}
