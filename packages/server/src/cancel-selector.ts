import type { RolloutSelector } from '@osmosis/core'
import type { CancelRequestBody } from '@osmosis/core/wire'

/** The selector in the body of a cancel request, which its schema has found to hold exactly one. */
export function toSelector({ ids, prefix }: CancelRequestBody): RolloutSelector {
  if (ids) return { ids }
  return prefix ? { prefix } : { all: true }
}
