import type { LeaseOutcome, LeaseSettings } from '@osmosis/server/protocols'

import type { RolloutRecords } from './rollout-records.ts'
import { luaScript } from './script-library.ts'

// All results that are stored for their callers: when each expires, its size, and the sum of the sizes.
const shared = `
local retained, sizes, total = prefix .. ':retained', prefix .. ':retained-sizes', prefix .. ':retained-bytes'
local function forget(retained_id)
  redis.call('ZREM', retained, retained_id)
  redis.call('DECRBY', total, redis.call('HGET', sizes, retained_id) or 0)
  redis.call('HDEL', sizes, retained_id)
end
local function forgetExpired()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', retained, '-inf', now(), 'LIMIT', 0, 1000)) do
    forget(old)
  end
end
`

const scripts = {
  /** Stores the outcome of a lease, which the first caller decides. */
  publish: luaScript('leaseAfter', 'changed')`${shared}
    local blob, retention_ms, has_lapsed = ARGV[3], ARGV[4], ARGV[5] == '1'
    if redis.call('EXISTS', record) == 0 then return 0 end
    if not leaseAfter('decide') then return 0 end
    set('end', blob, 'ended_at', now())
    if not has_lapsed then redis.call('ZREM', prefix .. ':leases', id) end
    redis.call('ZADD', retained, now() + retention_ms, id)
    redis.call('HSET', sizes, id, #blob)
    redis.call('INCRBY', total, #blob)
    -- Without servers no process removes expired results, so the keys expire with the last one.
    for _, key in ipairs({ retained, sizes, total }) do redis.call('PEXPIRE', key, retention_ms) end
    changed()
    return 1`,

  unlist: luaScript()`
    redis.call('ZREM', prefix .. ':leases', id)`,

  /** Stores the status that the holder received last. */
  answered: luaScript()`
    if redis.call('EXISTS', record) == 1 then set('answered', ARGV[3]) end`,

  /** Renews a lease, because its holder requested the result. */
  renew: luaScript()`
    if redis.call('EXISTS', record) == 0 then return false end
    local lease_ms, at = get('lease_ms'), now()
    if not lease_ms then return false end
    set('heard_at', at)
    if not get('ended_at') then redis.call('ZADD', prefix .. ':leases', at + lease_ms, id) end
    return at + lease_ms`,

  fetched: luaScript('leaseAfter')`
    if leaseAfter('fetch') then set('fetched_at', now()) end
    return get('fetched_at')`,

  /** Whether there is room for another leased rollout. If necessary, deletes results that were fetched. */
  makeRoom: luaScript()`${shared}
    local most, most_bytes, lease_ms = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
    local function hasRoom()
      local count = redis.call('ZCARD', prefix .. ':leases') + redis.call('ZCARD', retained)
      return count < most and tonumber(redis.call('GET', total) or 0) < most_bytes
    end
    forgetExpired()
    if hasRoom() then return 1 end
    for _, old in ipairs(redis.call('ZRANGE', retained, 0, 999)) do
      local key = prefix .. ':rollout:' .. old
      local fetched = redis.call('HGET', key, 'fetched_at')
      if fetched and fetched + lease_ms <= now() then
        redis.call('DEL', key)
        forget(old)
        if hasRoom() then return 1 end
      end
    end
    return 0`,

  count: luaScript()`${shared}
    forgetExpired()
    return { redis.call('ZCARD', retained), redis.call('GET', total) or '0' }`,
}

/** The leases of a queue and the results that are stored for their callers. */
export class LeaseRecords {
  readonly #records: RolloutRecords

  constructor(records: RolloutRecords) {
    this.#records = records
  }

  /**
   * Stores the outcome of a lease, unless there is one already.
   *
   * @param retentionMs - how long it is stored
   * @param hasLapsed - whether the lease stays listed until {@link LeaseRecords.unlist}, because its rollout still runs
   */
  async publish(
    rolloutId: string,
    end: LeaseOutcome,
    retentionMs: number,
    hasLapsed = false,
  ): Promise<boolean> {
    const blob = this.#records.seal(rolloutId, 'end', end)
    const values = [blob, retentionMs, hasLapsed ? 1 : 0]
    return Number(await this.#records.run(scripts.publish, rolloutId, values)) === 1
  }

  /** Removes a lease from those that lapse. */
  async unlist(rolloutId: string): Promise<void> {
    await this.#records.run(scripts.unlist, rolloutId)
  }

  /** The outcome of a lease; undefined until it is decided. */
  async endOf(rolloutId: string): Promise<LeaseOutcome | undefined> {
    const sealed = await this.#records.ask((redis) =>
      redis.hgetBuffer(this.#records.key(rolloutId), 'end'),
    )
    return sealed === null
      ? undefined
      : (this.#records.open(rolloutId, 'end', sealed) as LeaseOutcome)
  }

  /** Records that the outcome of a lease was fetched. */
  async noteFetched(id: string): Promise<void> {
    await this.#records.run(scripts.fetched, id)
  }

  /** Renews a lease. Resolves with the time at which it expires; undefined for an unknown lease. */
  async renew(id: string): Promise<number | undefined> {
    const lapses = await this.#records.run(scripts.renew, id)
    return lapses === null ? undefined : Number(lapses)
  }

  /** Stores the status that the holder received, so that no server sends it again. */
  async noteAnswer(rolloutId: string, status: string): Promise<void> {
    await this.#records.run(scripts.answered, rolloutId, [status])
  }

  /** The status that the holder received last. */
  async lastAnswer(rolloutId: string): Promise<string> {
    const key = this.#records.key(rolloutId)
    const answered = await this.#records.ask((redis) => redis.hget(key, 'answered'))
    return answered ?? 'queued'
  }

  /** Whether there is room for another leased rollout. If necessary, deletes results that were fetched. */
  async makeRoom(settings: LeaseSettings): Promise<boolean> {
    const { maxRetained, maxRetainedBytes, leaseSeconds } = settings
    const values = [maxRetained, maxRetainedBytes, leaseSeconds * 1000]
    return Number(await this.#records.run(scripts.makeRoom, 'any', values)) === 1
  }

  /** Number and stored size of the results. */
  async retained(): Promise<{ readonly count: number; readonly bytes: number }> {
    const [count, bytes] = (await this.#records.run(scripts.count, 'any')) as (Buffer | number)[]
    return { count: Number(count), bytes: Number(bytes) }
  }
}
