import { causes, errorCategory, errorMessage, isOsmosisError } from '@osmosis/core'
import { codeLine } from './code-place.ts'

/**
 * An error of user code as people read it: `thrown by run() at main.ts:17: no such order`. What the SDK
 * itself says of a policy, a deadline or a missing reward needs no place, and stays as it is.
 *
 * @param by - the function of the user that threw: `run()`
 */
export function thrownBy(by: string, error: unknown): string {
  const message = errorMessage(error)
  try {
    const chain = causes(error)
    const place = chain.map(codeLine).find((line) => line !== undefined)
    const own = chain.find(isOsmosisError)
    const isWrongUse = place !== undefined && errorCategory(own) === 'validation_error'
    if (own !== undefined && !isWrongUse) return message
    return `thrown by ${by}${place === undefined ? '' : ` at ${place}`}: ${message}`
  } catch {
    // Getters and proxies are code of users, too, and may throw themselves.
    return `thrown by ${by}: ${message}`
  }
}
