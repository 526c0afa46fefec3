import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'

/** Maximum number of keys that belong to queues instead of rollouts, and of members in one of them. */
const mostKeys = 40
const mostMembers = 25
const patienceMs = 20_000

/** What would stay in Redis forever after all rollouts were delivered; event streams are bounded. */
export async function leftovers(url: string): Promise<string[]> {
  const redis = new Redis(url)
  try {
    for (const until = performance.now() + patienceMs; ;) {
      const found = await lasting(redis)
      if (found.length === 0 || performance.now() > until) return found
      await sleep(500)
    }
  } finally {
    redis.disconnect()
  }
}

/** The content of Redis about a rollout, to find out why it has no outcome. */
export async function traceOf(url: string, id: string): Promise<string> {
  const redis = new Redis(url)
  try {
    const keys = await allKeys(redis)
    const own = keys.filter((key) => isAbout(key, id))
    const found = await Promise.all(
      own.map(async (key) => {
        if ((await redis.type(key)) !== 'hash') return key
        const fields = Object.entries(await redis.hgetall(key))
        const short = fields.filter(([, value]) => /^[\x20-\x7e]{0,100}$/.test(value))
        return `${key} ${JSON.stringify(Object.fromEntries(short))}`
      }),
    )
    const lists = await Promise.all(keys.map(async (key) => holds(redis, key, id)))
    return [...found, ...keys.filter((_, index) => lists[index])].join('\n  ')
  } finally {
    redis.disconnect()
  }
}

async function holds(redis: Redis, key: string, id: string): Promise<boolean> {
  const type = await redis.type(key)
  const members =
    type === 'zset'
      ? await redis.zrange(key, 0, -1)
      : type === 'list'
        ? await redis.lrange(key, 0, -1)
        : type === 'set'
          ? await redis.smembers(key)
          : []
  return members.some((member) => isAbout(member, id))
}

function isAbout(name: string, id: string): boolean {
  return [id, `${id}.completion`, `${id}.end`].some((end) => name.endsWith(end))
}

async function allKeys(redis: Redis): Promise<string[]> {
  const found = new Set<string>()
  const batches = redis.scanStream({ count: 10_000 }) as AsyncIterable<string[]>
  for await (const keys of batches) for (const key of keys) found.add(key)
  return [...found]
}

async function lasting(redis: Redis): Promise<string[]> {
  const found: string[] = []
  const keys = await allKeys(redis)
  const expiring = await Promise.all(keys.map(async (key) => redis.pttl(key)))
  const permanent = keys.filter((_, index) => expiring[index] === -1)
  if (permanent.length > mostKeys) {
    found.push(`${permanent.length} keys never expire, such as ${permanent.slice(0, 3).join(', ')}`)
  }
  for (const key of permanent.slice(0, 200)) {
    const members = await size(redis, key)
    if (members > mostMembers) found.push(`${key} has ${members} members`)
  }
  return found
}

async function size(redis: Redis, key: string): Promise<number> {
  const type = await redis.type(key)
  if (type === 'list') return redis.llen(key)
  if (type === 'set') return redis.scard(key)
  if (type === 'zset') return redis.zcard(key)
  return type === 'hash' ? redis.hlen(key) : 0
}
