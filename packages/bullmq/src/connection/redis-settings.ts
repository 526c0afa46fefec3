// Which Redis a queue can use, as it says itself.
import { OsmosisError } from '@osmosis/core'
import { ReplyError, type Redis } from 'ioredis'

const oldestVersion = [6, 2] as const

/**
 * Warnings about a Redis that can be used, and loses rollouts in some event. One sentence each.
 *
 * @param address - of the Redis, for messages
 * @throws OsmosisError with code `invalid_config` for one that cannot be used; the error of Redis
 */
export async function settingsWarnings(redis: Redis, address: string): Promise<string[]> {
  const told = await redis.info().catch((error: unknown) => {
    if (error instanceof ReplyError) return undefined
    throw error
  })
  if (told !== undefined) return warningsOf(infoFields(told), address)
  return [
    `The Redis at ${address} does not allow INFO, so it is unknown whether it stores data durably.`,
  ]
}

function warningsOf(info: ReadonlyMap<string, string>, address: string): string[] {
  // BullMQ's scripts and those of the records use keys of one node alone, and connections follow no node that has moved.
  if (info.get('redis_mode') === 'cluster') {
    throw new OsmosisError(
      'invalid_config',
      `The Redis at ${address} is a node of a Redis Cluster, which a queue cannot use: it would lose rollouts when keys move to another node. Use a Redis without cluster mode.`,
    )
  }
  const version = info.get('redis_version') ?? '0'
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor, oldestMinor] = oldestVersion
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new OsmosisError(
      'invalid_config',
      `The Redis at ${address} is ${version}. A queue needs ${oldestVersion.join('.')} or newer, or Valkey.`,
    )
  }
  const warnings = []
  if (info.get('aof_enabled') === '0') {
    warnings.push(
      `The Redis at ${address} has no append-only file: accepted rollouts are lost when it restarts. Set "appendonly yes".`,
    )
  }
  const policy = info.get('maxmemory_policy')
  if (policy !== undefined && policy !== 'noeviction') {
    warnings.push(
      `The Redis at ${address} evicts keys when its memory is full (${policy}), and so loses rollouts. Set "maxmemory-policy noeviction".`,
    )
  }
  return warnings
}

function infoFields(info: string): Map<string, string> {
  const pairs = [...info.matchAll(/^(\w+):(.*?)\r?$/gm)]
  return new Map(pairs.map(([, name = '', value = '']) => [name, value]))
}
