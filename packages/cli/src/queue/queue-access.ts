import { readFileSync } from 'node:fs'

import type * as bullmq from '@osmosis/bullmq'
import { errorMessage } from '@osmosis/core'
import {
  parseRedisAddress,
  redisAddressText,
  redisPlace,
  type RedisAddress,
} from '@osmosis/protocol/wire'

import { environment, displayPath, hideKeys } from '../command/command-context.ts'
import { invalid } from '../command/wrong-use.ts'

type QueuePackage = typeof bullmq

/** What a process needs to use a queue. */
interface QueueAccess {
  readonly queuePackage: QueuePackage
  readonly connection: bullmq.QueueConnectionOptions
  /** Human-readable name of the queue. */
  readonly place: string
}

/**
 * Reads the settings of a queue from the environment, without connecting to it.
 *
 * @param redis - the flag of that name
 * @throws OsmosisError with code `invalid_config`, also when @osmosis/bullmq is not installed
 */
export async function queueAccess(redis: string): Promise<QueueAccess> {
  const env = environment()
  const address = redisAddress(redis, env['OSMOSIS_REDIS_PASSWORD'])
  hideKeys(env['OSMOSIS_REDIS_SENTINEL_PASSWORD'])
  const queuePackage = await loadQueuePackage()
  const prefix = env['OSMOSIS_REDIS_PREFIX'] || undefined
  const keyFile = env['OSMOSIS_QUEUE_KEY_FILE'] || undefined
  const keys = keyFile === undefined ? undefined : readKeys(queuePackage, keyFile)
  const allowPlainKeys = env['OSMOSIS_ALLOW_PLAIN_KEYS'] === '1'
  return {
    queuePackage,
    connection: {
      url: redisAddressText(address),
      sentinelPassword: env['OSMOSIS_REDIS_SENTINEL_PASSWORD'] || undefined,
      prefix,
      keys,
      allowPlainKeys,
    },
    place: `the queue ${prefix ?? 'osmosis'} at ${redisPlace(address)}`,
  }
}

/** Only users of a queue install the package. */
async function loadQueuePackage(): Promise<QueuePackage> {
  try {
    return await import('@osmosis/bullmq')
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND'
    if (!isMissing || !errorMessage(error).includes("'@osmosis/bullmq'")) throw error
    throw invalid('--redis needs the package @osmosis/bullmq: npm install @osmosis/bullmq.')
  }
}

function readKeys(queuePackage: QueuePackage, file: string): bullmq.QueueKeys {
  let text: string
  try {
    text = readFileSync(displayPath(file), 'utf8')
  } catch (error) {
    throw invalid(`OSMOSIS_QUEUE_KEY_FILE cannot be read: ${errorMessage(error)}`)
  }
  return queuePackage.QueueKeys.parse(text)
}

/**
 * The address that `--redis` names, with the password of the environment when it has none. That is taken as it is.
 *
 * @throws OsmosisError with code `invalid_config`; no part of a user or password is in it
 */
export function redisAddress(redis: string, password: string | undefined): RedisAddress {
  const address = parseRedisAddress(redis)
  if (typeof address === 'string') throw invalid(`The address of --redis ${address}.`)
  const whole = { ...address, password: address.password ?? (password || undefined) }
  hideKeys(whole.password)
  return whole
}
