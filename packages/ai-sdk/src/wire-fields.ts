import { isDeepStrictEqual } from 'node:util'

import type { SystemModelMessage } from 'ai'

type ProviderOptions = NonNullable<SystemModelMessage['providerOptions']>

/**
 * Options that add fields to a message or part when it goes over the wire.
 *
 * @param fields - as they are to be sent
 * @param sent - as they are sent anyway; only what differs needs an option
 */
export function onTheWire(
  fields: object,
  sent: Readonly<Record<string, unknown>>,
): { providerOptions?: ProviderOptions } {
  const differing = Object.entries(fields).filter(
    ([key, value]) => value !== undefined && !isDeepStrictEqual(value, sent[key]),
  )
  if (differing.length === 0) return {}
  const openaiCompatible: unknown = Object.fromEntries(differing)
  return { providerOptions: { openaiCompatible } as ProviderOptions }
}
