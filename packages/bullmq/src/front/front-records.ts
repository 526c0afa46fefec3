import type { LeasedEnd, LeaseSettings } from '@osmosis/server/protocols'

import { script } from '../records/record-scripts.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'

// Results that are kept for their callers, all of them together: when each is to be forgotten, its
// size, and the sum of the sizes.
const shared = `
local kept, sizes, total = prefix .. ':kept', prefix .. ':kept-sizes', prefix .. ':kept-bytes'
local function forget(kept_id)
  redis.call('ZREM', kept, kept_id)
  redis.call('DECRBY', total, redis.call('HGET', sizes, kept_id) or 0)
  redis.call('HDEL', sizes, kept_id)
end
local function forgetExpired()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', kept, '-inf', now(), 'LIMIT', 0, 1000)) do
    forget(old)
  end
end
`

const scripts = {
  /** The one end of a lease: whoever comes first decides it. */
  publish: script(`${shared}
    local blob, retention_ms = ARGV[3], ARGV[4]
    if redis.call('EXISTS', record) == 0 then return 0 end
    if redis.call('HSETNX', record, 'end', blob) == 0 then return 0 end
    set('ended_at', now())
    redis.call('ZREM', prefix .. ':leases', id)
    redis.call('ZADD', kept, now() + retention_ms, id)
    redis.call('HSET', sizes, id, #blob)
    redis.call('INCRBY', total, #blob)
    -- Without fronts nobody forgets what has expired. Until then the last result keeps all of it.
    for _, key in ipairs({ kept, sizes, total }) do redis.call('PEXPIRE', key, retention_ms) end
    changed()
    return 1`),

  /** The status that the holder was answered last. */
  answered: script(`
    if redis.call('EXISTS', record) == 1 then set('answered', ARGV[3]) end`),

  /** What the status of a rollout says from now on. */
  rewordError: script(`
    if get('error') then set('error', ARGV[3]) end`),

  /** What was told is not everything. */
  notTold: script(`
    if redis.call('EXISTS', record) == 1 then toTell(true) end`),

  /** Somebody is telling these: nobody has to be reminded of them. */
  beingTold: script(`
    local due = now() + ARGV[3]
    for n = 4, #ARGV do redis.call('ZADD', prefix .. ':untold', 'XX', due, ARGV[n]) end`),

  /** Whether one more leased rollout has room, if need be in the place of a result that was fetched. */
  makeRoom: script(`${shared}
    local most, most_bytes, lease_ms = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
    local function hasRoom()
      local count = redis.call('ZCARD', prefix .. ':leases') + redis.call('ZCARD', kept)
      return count < most and tonumber(redis.call('GET', total) or 0) < most_bytes
    end
    forgetExpired()
    if hasRoom() then return 1 end
    for _, old in ipairs(redis.call('ZRANGE', kept, 0, 999)) do
      local key = prefix .. ':rollout:' .. old
      local fetched = redis.call('HGET', key, 'fetched_at')
      if fetched and fetched + lease_ms <= now() then
        redis.call('DEL', key)
        forget(old)
        if hasRoom() then return 1 end
      end
    end
    return 0`),

  count: script(`${shared}
    forgetExpired()
    return { redis.call('ZCARD', kept), redis.call('GET', total) or '0' }`),
}

/** What fronts keep in the queue for one another, beside the records themselves. */
export class FrontRecords {
  readonly #records: RolloutRecords

  constructor(records: RolloutRecords) {
    this.#records = records
  }

  /**
   * Decides the end of a lease, unless it is decided.
   *
   * @param retentionMs - how long it is kept
   */
  async publish(rolloutId: string, end: LeasedEnd, retentionMs: number): Promise<boolean> {
    const blob = this.#records.seal(rolloutId, 'end', end)
    return Number(await this.#records.run(scripts.publish, rolloutId, [blob, retentionMs])) === 1
  }

  /** The end of a lease; undefined until it is decided. */
  async endOf(rolloutId: string): Promise<LeasedEnd | undefined> {
    return (await this.#records.endOf(rolloutId)) as LeasedEnd | undefined
  }

  /** Notes what the holder was answered, so that no front answers it again. */
  async answered(rolloutId: string, status: string): Promise<void> {
    await this.#records.run(scripts.answered, rolloutId, [status])
  }

  /** The status that the holder was answered last. */
  async lastAnswer(rolloutId: string): Promise<string> {
    const key = this.#records.key(rolloutId)
    const answered = await this.#records.ask((redis) => redis.hget(key, 'answered'))
    return answered ?? 'queued'
  }

  /** Has the status of a rollout say this of its failure. */
  async rewordError(rolloutId: string, message: string): Promise<void> {
    const sealed = this.#records.sealError(rolloutId, message)
    await this.#records.run(scripts.rewordError, rolloutId, [sealed])
  }

  /** Something is left to be told, whatever was told meanwhile. */
  async notTold(rolloutId: string): Promise<void> {
    await this.#records.run(scripts.notTold, rolloutId)
  }

  /** Somebody is telling the results of these rollouts: for `ms` nobody has to be reminded of them. */
  async beingTold(rolloutIds: readonly string[], ms: number): Promise<void> {
    await this.#records.run(scripts.beingTold, 'any', [ms, ...rolloutIds])
  }

  /** Whether one more leased rollout has room, if need be in the place of a result that was fetched. */
  async makeRoom(settings: LeaseSettings): Promise<boolean> {
    const { maxRetained, maxRetainedBytes, leaseSeconds } = settings
    const values = [maxRetained, maxRetainedBytes, leaseSeconds * 1000]
    return Number(await this.#records.run(scripts.makeRoom, 'any', values)) === 1
  }

  /** How many results are kept, and their size as they are kept. */
  async retained(): Promise<{ readonly count: number; readonly bytes: number }> {
    const [count, bytes] = (await this.#records.run(scripts.count, 'any')) as (Buffer | number)[]
    return { count: Number(count), bytes: Number(bytes) }
  }
}
