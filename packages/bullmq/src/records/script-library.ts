import { hash } from 'node:crypto'

import {
  cancelDispositions,
  isEnded,
  leaseSteps,
  lifecycleStates,
  lossRules,
  transitions,
} from '@osmosis/protocol'
import type { Redis } from 'ioredis'

/** An argument of a script. All get the key of the record, the prefix and the id before their own. */
export type ScriptValue = string | number | Buffer

/** One atomic step of a record, in Lua. */
export interface RecordScript {
  readonly text: string
  /** Its name in Redis once it was sent. */
  readonly digest: string
}

/** How long an outcome may be pending before other servers are notified. Milliseconds. */
export const undeliveredMs = 15_000

/** A longer time without a sweep is a pause in which processes may not have reached Redis. Milliseconds. */
const longestPauseMs = 3_000

// Keys beside that of the record are made of the prefix here, which no Redis Cluster would allow.
const everyScript = `
    local record, prefix, id = KEYS[1], ARGV[1], ARGV[2]
    -- Fields that were read before, because calling Redis from a script is slow.
    local known = {}
    local function read(...)
      local values = redis.call('HMGET', record, ...)
      for n, field in ipairs({ ... }) do known[field] = values[n] end
    end
    local function get(field)
      if known[field] == nil then known[field] = redis.call('HGET', record, field) end
      return known[field]
    end
    local function set(...)
      redis.call('HSET', record, ...)
      local written = { ... }
      for n = 1, #written, 2 do known[written[n]] = nil end
    end
    local function now()
      local time = redis.call('TIME')
      return time[1] * 1000 + math.floor(time[2] / 1000)
    end
    -- States with a list of their rollouts: all except the final ones.
    local listed = ${luaTable(
      Object.fromEntries(lifecycleStates.filter((one) => !isEnded(one)).map((one) => [one, true])),
    )}`

/** What a script names to use it. A part that uses another one is named after it. */
const parts = {
  stateAfter: `
    local transitions = ${luaTable(transitions)}
    -- Without the number of an execution the event is not fenced.
    local function stateAfter(event, execution)
      local transition = transitions[event]
      local to = transition.to[get('status') or '']
      if not to or execution and get('run') ~= tostring(execution) then return nil, 'stale' end
      if transition.yieldsToCancel and get('cancel') then return nil, 'after_cancel' end
      return to
    end`,
  afterLoss: `
    local lossRules = ${luaTable(lossRules)}
    local function afterLoss(lost)
      for _, rule in ipairs(lossRules) do
        if (lost[rule.fact] or 0) >= rule.limit then return rule.reason end
      end
    end`,
  servedMs: `
    -- How long processes have reached this Redis without a pause: what expired before may not have been renewed. A replica
    -- that has taken the place of a primary was up all the time.
    local function servedMs()
      local since, at = unpack(redis.call('HMGET', prefix .. ':served', 'since', 'at'))
      local ms = since and now() - at < ${longestPauseMs} and now() - since or 0
      local info = redis.pcall('INFO', 'server')
      local up = type(info) == 'string' and info:match('uptime_in_seconds:(%d+)')
      return up and math.min(ms, up * 1000) or ms
    end`,
  leaseAfter: `
    local leaseSteps = ${luaTable(leaseSteps)}
    local function leaseAfter(step)
      local state = get('fetched_at') and 'fetched' or get('ended_at') and 'published' or 'open'
      return state == leaseSteps[step].from and leaseSteps[step].to
    end`,
  cancelDispositions: `local cancelDispositions = ${luaTable(cancelDispositions)}`,
  enter: `
    -- Sets more fields with it.
    local function enter(status, ...)
      local before = get('status')
      if before and listed[before] then redis.call('ZREM', prefix .. ':' .. before, id) end
      set('status', status, 'at:' .. status, now(), ...)
      known.status = status
      if listed[status] then redis.call('ZADD', prefix .. ':' .. status, get('admitted_at'), id) end
    end`,
  changed: `
    local function changed()
      redis.call('HINCRBY', record, 'version', 1)
      redis.call('PUBLISH', prefix .. ':wake', get('status') .. ' ' .. id)
    end`,
  awaitDelivery: `
    -- Notifies the server that accepted the rollout, which has some time to deliver the outcome. Returns 0
    -- when that server is not listening, so that another one must be notified.
    local function awaitDelivery(waits)
      if get('status') == 'grading' and get('may_grade') then return 1 end
      redis.call('ZADD', prefix .. ':undelivered', now() + (get('deliver_ms') or ${undeliveredMs}), id)
      if waits then return 1 end
      local channel = prefix .. ':server:' .. (get('server') or '')
      return redis.call('PUBLISH', channel, get('status') .. ' ' .. id)
    end`,
  noteDelivered: `
    local function noteDelivered(kind, how)
      redis.call('HDEL', record, 'callback:' .. kind)
      -- An ended rollout stays listed: a late server may deliver this while another callback is pending.
      if listed[get('status')] then redis.call('ZREM', prefix .. ':undelivered', id) end
      set('delivered:' .. kind, how)
      changed()
    end`,
  notifyWorker: `
    -- Notifies its worker about an execution; by default the worker reads the record.
    local function notifyWorker(what)
      local worker = get('worker')
      local message = (what or 'look') .. ' ' .. (get('run') or 0) .. ' ' .. id
      if worker then redis.call('PUBLISH', prefix .. ':worker:' .. worker .. ':control', message) end
    end`,
}

/**
 * One script: the text of the template, after the functions that every script has.
 *
 * @param uses - the parts that it uses besides
 */
export function luaScript(...uses: readonly (keyof typeof parts)[]) {
  return (texts: TemplateStringsArray, ...values: readonly string[]): RecordScript => {
    const source = String.raw({ raw: texts }, ...values)
    const lines = [everyScript, ...uses.map((name) => parts[name]), source].join('\n').split('\n')
    const trimmed = lines.map((line) => line.trim())
    const text = trimmed.filter((line) => line !== '' && !line.startsWith('--')).join('\n')
    return { text, digest: hash('sha1', text) }
  }
}

/** A value of the lifecycle tables as Lua source. */
function luaTable(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`
  if (Array.isArray(value)) return `{ ${value.map(luaTable).join(', ')} }`
  if (typeof value !== 'object' || value === null) return String(value)
  const fields = Object.entries(value).map(([name, field]) => `${name} = ${luaTable(field)}`)
  return `{ ${fields.join(', ')} }`
}

/**
 * Runs scripts. Each is sent in full the first time on a connection, and by its digest afterwards.
 */
export class KnownScripts {
  readonly #redis: Redis
  readonly #known = new Set<RecordScript>()

  constructor(redis: Redis) {
    this.#redis = redis
    redis.on('close', () => this.#known.clear())
  }

  async run(script: RecordScript, values: readonly ScriptValue[]): Promise<unknown> {
    if (this.#known.has(script)) {
      try {
        return await this.#redis.callBuffer('EVALSHA', script.digest, ...values)
      } catch (error) {
        // Redis was restarted, or an operator has flushed its scripts.
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      }
    }
    return this.runWhole(script, values)
  }

  /** Sends the script in full, so that it never needs a second message. */
  async runWhole(script: RecordScript, values: readonly ScriptValue[]): Promise<unknown> {
    const reply = await this.#redis.callBuffer('EVAL', script.text, ...values)
    this.#known.add(script)
    return reply
  }
}
