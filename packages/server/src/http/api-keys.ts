import { OsmosisError } from '@osmosis/core'
import { assertApiKey, carriesKey } from '@osmosis/core/http'
import type { SecretValues } from '@osmosis/protocol/http'

/**
 * The keys of which callers must present one. Several are valid at once, so that a key can be rotated
 * without downtime: add the new one, move the callers, remove the old one.
 */
export class ApiKeys {
  readonly #secrets: SecretValues
  #keys: readonly string[]
  #forget: () => void

  /**
   * @param keys - one or several; undefined: callers need none
   * @throws OsmosisError with code `invalid_config`
   */
  constructor(keys: string | readonly string[] | undefined, secrets: SecretValues) {
    this.#secrets = secrets
    this.#keys = keys === undefined ? [] : checked(keys)
    this.#forget = secrets.add(...this.#keys)
  }

  /** Whether callers have to present one. */
  get required(): boolean {
    return this.#keys.length > 0
  }

  /**
   * Replaces all valid keys.
   *
   * @throws OsmosisError with code `invalid_config`, also when the server requires no key: an open server
   * stays open, and a closed one stays closed
   */
  replace(keys: string | readonly string[]): void {
    const next = checked(keys)
    if (!this.required) {
      throw invalid('This server requires no key. Start it with one to be able to change it.')
    }
    const forget = this.#secrets.add(...next)
    this.#forget()
    this.#forget = forget
    this.#keys = next
  }

  /**
   * Whether an `authorization` header carries one of them. Every key is compared, so that the time
   * reveals nothing.
   *
   * @param options.bare - accept a key without `Bearer` in front of it as well
   */
  isCarriedBy(header: string | undefined, options: { readonly bare: boolean }): boolean {
    return this.#keys.map((key) => carriesKey(header, key, options)).includes(true)
  }
}

function checked(keys: string | readonly string[]): readonly string[] {
  const all = typeof keys === 'string' ? [keys] : [...new Set(keys)]
  if (all.length === 0) throw invalid('apiKey is an empty list. Omit it, or pass a key.')
  for (const key of all) assertApiKey(key)
  return all
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
