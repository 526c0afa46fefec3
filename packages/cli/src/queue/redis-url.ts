import { OsmosisError } from '@osmosis/core'

import { hideKey } from '../surroundings.ts'

/**
 * The URL that `--redis` names, with the password of the environment when it has none.
 *
 * @throws OsmosisError with code `invalid_config`; the URL, which may have a password, is not in it
 */
export function redisUrl(redis: string, password: string | undefined): URL {
  const url = URL.canParse(redis) ? new URL(redis) : undefined
  if (url === undefined || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    throw new OsmosisError(
      'invalid_config',
      '--redis must be a URL such as redis://127.0.0.1:6379, or rediss://… for a Redis that speaks TLS.',
    )
  }
  if (url.password === '' && password) url.password = password
  hideKey(decodeURIComponent(url.password))
  return url
}
