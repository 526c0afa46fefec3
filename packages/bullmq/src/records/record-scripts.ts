/** What a script is given: the key of its record, then prefix, id and values of its own. */
export type ScriptValue = string | number | Buffer

/** One step of a record, in Lua, that nothing can come between. */
export type RecordScript = string

/** How long an outcome may be without anybody who tells it. Milliseconds. */
export const untoldMs = 15_000

// Keys beside that of the record are made of the prefix here: with Redis Cluster the prefix has braces.
const shared = {
  known: `
    -- What was read of the record: to call Redis from here takes longer than what it does.
    local known = {}`,
  read: `
    local function read(...)
      local values = redis.call('HMGET', record, ...)
      for n, field in ipairs({ ... }) do known[field] = values[n] end
    end`,
  get: `
    local function get(field)
      if known[field] == nil then known[field] = redis.call('HGET', record, field) end
      return known[field]
    end`,
  set: `
    local function set(...)
      redis.call('HSET', record, ...)
      local written = { ... }
      for n = 1, #written, 2 do known[written[n]] = nil end
    end`,
  now: `
    local function now()
      local time = redis.call('TIME')
      return time[1] * 1000 + math.floor(time[2] / 1000)
    end`,
  listed: `
    local listed = { queued = true, running = true, grading = true }`,
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
  toTell: `
    -- Has an outcome told by the front that accepted the rollout, which has some time for it. Gives
    -- whether that front hears it; otherwise any other has to be asked.
    local function toTell(waits)
      if get('status') == 'grading' and get('may_grade') then return 1 end
      redis.call('ZADD', prefix .. ':untold', now() + (get('tell_ms') or ${untoldMs}), id)
      if waits then return 1 end
      local channel = prefix .. ':front:' .. (get('front') or '')
      return redis.call('PUBLISH', channel, get('status') .. ' ' .. id)
    end`,
  told: `
    local function told(kind, how)
      redis.call('HDEL', record, 'callback:' .. kind)
      -- Of one that has ended there may be more: two fronts may tell the same, one of them late.
      if listed[get('status')] then redis.call('ZREM', prefix .. ':untold', id) end
      set('told:' .. kind, how)
      changed()
    end`,
  tellWorker: `
    -- Says to its worker what is so of which run; by default only that it is to look.
    local function tellWorker(what)
      local worker = get('worker')
      local said = (what or 'look') .. ' ' .. (get('run') or 0) .. ' ' .. id
      if worker then redis.call('PUBLISH', prefix .. ':worker:' .. worker .. ':control', said) end
    end`,
}

/** @param source - what it uses of what scripts share goes before it */
export function script(source: string): RecordScript {
  let text = source
  // None of them uses what comes after it.
  for (const [name, part] of Object.entries(shared).toReversed()) {
    if (new RegExp(`\\b${name}\\b`).test(text)) text = `${part}\n${text}`
  }
  const lines = `local record, prefix, id = KEYS[1], ARGV[1], ARGV[2]\n${text}`.split('\n')
  const trimmed = lines.map((line) => line.trim())
  return trimmed.filter((line) => line !== '' && !line.startsWith('--')).join('\n')
}

/** Acceptance, and what delivery does to a record. */
export const deliveryScripts = {
  accept: script(`
    local kind, digest, answer, code, may_grade, limit_ms, most_queued, keep_ms = unpack(ARGV, 3, 10)
    local lease_ms, token, most_leases, front, tell_ms = unpack(ARGV, 11, 15)
    local request, delivery = ARGV[16], ARGV[17]
    read('status', 'digest', 'answer', 'token_digest')
    if get('status') then
      local same = get('digest') == digest
      -- Whoever knows the token asks again because it had no answer.
      if same and token ~= '' and get('token_digest') == token then
        return { 'new', get('answer') }
      end
      return { same and 'known' or 'contradicted', get('answer') }
    end
    if most_queued ~= '' and redis.call('ZCARD', prefix .. ':queued') >= tonumber(most_queued) then
      return { 'full', '' }
    end
    if most_leases ~= '' and redis.call('ZCARD', prefix .. ':leases') >= tonumber(most_leases) then
      return { 'full', '' }
    end
    local admitted = now()
    set('kind', kind, 'digest', digest, 'answer', answer, 'code', code, 'admitted_at', admitted,
      'run', 0, 'version', 0, 'calls', 0, 'downed', 0, 'request', request, 'delivery', delivery)
    known.admitted_at = admitted
    if may_grade == '1' then set('may_grade', 1) end
    if token ~= '' then set('token_digest', token) end
    if front ~= '' then set('front', front, 'tell_ms', tell_ms) end
    if lease_ms ~= '' then
      set('heard_at', admitted, 'lease_ms', lease_ms)
      redis.call('ZADD', prefix .. ':leases', admitted + lease_ms, id)
    end
    if limit_ms ~= '' then
      set('limit', admitted + limit_ms)
      redis.call('ZADD', prefix .. ':deadlines', admitted + limit_ms, id)
    end
    enter('queued')
    redis.call('ZADD', prefix .. ':jobless', admitted + keep_ms, id)
    return { 'new', answer }`),

  /** The record has a job, and stays. */
  hasJob: script(`
    if redis.call('EXISTS', record) == 0 then return 0 end
    set('job', 1)
    return redis.call('ZREM', prefix .. ':jobless', id)`),

  /** Nobody was answered that it is accepted: whoever wanted to is gone. */
  abandon: script(`
    redis.call('ZREM', prefix .. ':jobless', id)
    -- Taken, or ended without a worker.
    if get('job') or get('status') ~= 'queued' then return 0 end
    for _, list in ipairs({ ':queued', ':deadlines', ':leases' }) do
      redis.call('ZREM', prefix .. list, id)
    end
    return redis.call('DEL', record)`),

  allowGrading: script(`
    local how, report = ARGV[3], ARGV[4]
    read('status', 'worker', 'run')
    local status = get('status')
    if not status then return 0 end
    if how ~= '' then told('completion', how) end
    if report ~= '' and get('delivery') then set('report', report) end
    if not listed[status] then return 1 end
    set('may_grade', 1, 'at:allowed', now())
    tellWorker('grade')
    return 0`),

  keepCallback: script(`
    local kind, body = ARGV[3], ARGV[4]
    read('status', 'told:' .. kind)
    if not get('status') or get('told:' .. kind) then return false end
    -- A body is long, and whoever brought it has it.
    if redis.call('HSETNX', record, 'callback:' .. kind, body) == 1 then return 1 end
    return get('callback:' .. kind)`),

  told: script(`
    if redis.call('EXISTS', record) == 0 then return 0 end
    told(ARGV[3], ARGV[4])
    return 1`),

  /** Somebody asked for the result of a lease. */
  hear: script(`
    if redis.call('EXISTS', record) == 0 then return false end
    local lease_ms, at = get('lease_ms'), now()
    if not lease_ms then return false end
    set('heard_at', at)
    if not get('end') then redis.call('ZADD', prefix .. ':leases', at + lease_ms, id) end
    return at + lease_ms`),

  /** The one end of a lease: whoever comes first decides it. Gives the end that counts. */
  end: script(`
    if redis.call('EXISTS', record) == 0 then return false end
    if redis.call('HSETNX', record, 'end', ARGV[3]) == 1 then
      set('ended_at', now())
      redis.call('ZREM', prefix .. ':leases', id)
      changed()
    end
    return get('end')`),

  fetched: script(`
    if get('end') and not get('fetched_at') then set('fetched_at', now()) end
    return get('fetched_at')`),

  /** Nothing more is to be told: what is left answers repetitions and status. */
  finish: script(`
    local keep_ms, kind, how = ARGV[3], ARGV[4], ARGV[5]
    read('status', 'job', 'lease_ms', 'limit')
    if not get('status') then return 0 end
    local lists = { ':untold' }
    if not get('job') then table.insert(lists, ':jobless') end
    if get('limit') then table.insert(lists, ':deadlines') end
    if get('lease_ms') then table.insert(lists, ':leases') end
    if kind ~= '' then told(kind, how) end
    redis.call('HDEL', record, 'request', 'delivery', 'workflow', 'samples', 'partial', 'grading',
      'cancel', 'token', 'limit', 'began', 'asked', 'downed', 'report', 'front',
      'tell_ms')
    for _, list in ipairs(lists) do redis.call('ZREM', prefix .. list, id) end
    return redis.call('PEXPIRE', record, keep_ms)`),
}

/** What the runs of a rollout do to its record. Each is refused to a run that was given up. */
export const runScripts = {
  take: script(`
    local worker, token, code, settled_ms, knows = unpack(ARGV, 3, 7)
    local most_downed, most_runs, grace_ms = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
    read('status', 'job', 'run', 'code', 'admitted_at', 'request', 'may_grade', 'limit')
    local status = get('status')
    if not status then return { 'gone' } end
    if not get('job') then
      set('job', 1)
      redis.call('ZREM', prefix .. ':jobless', id)
    end
    if not listed[status] then return { 'ended' } end
    local run = tonumber(get('run'))
    local function given()
      local waited = now() - get('admitted_at')
      return { 'run', run, waited, get('request'), get('may_grade') or '' }
    end
    if run > 0 then
      read('worker', 'token', 'cancel', 'asked', 'calls', 'began', 'downed')
      local holder = get('worker')
      if get('token') == token then return given() end
      if status == 'grading' then return { 'ended' } end
      if holder == worker and tonumber(knows) == run then return { 'mine', run } end
      if holder ~= worker then
        local silent_ms = redis.call('PTTL', prefix .. ':worker:' .. holder)
        if silent_ms ~= -2 then return { 'busy', run, silent_ms } end
        -- A Redis that was away does not know yet who lives.
        local info = redis.pcall('INFO', 'server')
        local up = type(info) == 'string' and info:match('uptime_in_seconds:(%d+)')
        local left_ms = up and settled_ms - up * 1000 or 0
        if left_ms > 0 then return { 'busy', run, left_ms } end
      end
      if get('cancel') then return { 'cancelled', run, get('cancel') } end
      if tonumber(get('asked')) == run then return { 'asked', run, get('calls') } end
    end
    if get('code') ~= code then return { 'other-code', get('code') } end
    if run > 0 then
      if tonumber(get('began')) == run then
        set('began', 0)
        known.downed = redis.call('HINCRBY', record, 'downed', 1)
      end
      if tonumber(get('downed')) >= most_downed then return { 'downed', run } end
      if run >= most_runs then return { 'never-begun', run } end
    end
    run = run + 1
    set('run', run, 'worker', worker, 'token', token)
    if status ~= 'queued' then enter('queued') end
    -- Its worker ends it in time; only one that cannot is given up by others.
    local limit = get('limit')
    if limit then redis.call('ZADD', prefix .. ':deadlines', limit + grace_ms, id) end
    changed()
    return given()`),

  /** User code is about to run. */
  begin: script(`
    local run = tonumber(ARGV[3])
    read('run', 'status', 'admitted_at')
    if tonumber(get('run')) ~= run or get('status') ~= 'queued' then return 0 end
    enter('running', 'began', run)
    changed()
    return 1`),

  /** The mark: the first model call may leave. */
  mark: script(`
    read('run', 'cancel', 'status', 'asked')
    local run, begun, status = tonumber(ARGV[3]), ARGV[4], get('status')
    if tonumber(get('run')) ~= run or get('cancel') then return 0 end
    if status ~= 'queued' and status ~= 'running' then return 0 end
    if tonumber(get('asked')) ~= run then redis.call('HINCRBY', record, 'calls', begun) end
    set('asked', run)
    return 1`),

  /** Model calls of any number of runs. */
  count: script(`
    for n = 3, #ARGV, 3 do
      local one, run, calls = prefix .. ':rollout:' .. ARGV[n], ARGV[n + 1], ARGV[n + 2]
      if redis.call('HGET', one, 'run') == run then redis.call('HINCRBY', one, 'calls', calls) end
    end`),

  /** The outcome of a phase, from the run that is current, or from whoever gives that run up. */
  settle: script(`
    local run, phase, outcome, samples, status, reward, message, gives_up = unpack(ARGV, 3, 10)
    local waits, calls = ARGV[11] == '1', ARGV[12]
    read('status', 'settled:' .. phase, 'run', 'cancel', 'worker', 'admitted_at', 'kind', 'may_grade',
      'tell_ms', 'front', 'limit')
    local before = get('status')
    if not before then return 'gone' end
    -- Whoever asks again does not know who has heard of it.
    if get('settled:' .. phase) == run then return waits and 'kept' or 'unheard' end
    if get('run') ~= run then return 'stale' end
    local in_workflow = before == 'queued' or before == 'running'
    if phase == 'workflow' and not in_workflow then return 'stale' end
    if phase == 'grading' and before ~= 'grading' then return 'stale' end
    -- A success that was under way comes after what the canceller was told.
    if get('cancel') and (status == 'success' or status == 'grading') then return 'cancelled' end
    -- The run that is given up has not said so itself.
    local fields = { phase, outcome, 'settled:' .. phase, gives_up == '1' and '-' or run }
    local function add(field, value)
      if value ~= '' then
        table.insert(fields, field)
        table.insert(fields, value)
      end
    end
    add('samples', samples)
    add('reward', reward)
    add('error', message)
    if calls ~= '0' then redis.call('HINCRBY', record, 'calls', calls) end
    local worker = get('worker')
    if status == 'grading' then
      redis.call('SADD', prefix .. ':held:' .. worker, id)
      redis.call('HSETNX', prefix .. ':workers', worker, 0)
    elseif before == 'grading' then
      redis.call('SREM', prefix .. ':held:' .. worker, id)
    end
    if get('limit') then redis.call('ZREM', prefix .. ':deadlines', id) end
    enter(status, unpack(fields))
    local heard = toTell(waits)
    if gives_up == '1' then
      known.run = redis.call('HINCRBY', record, 'run', 1)
      tellWorker()
    end
    changed()
    return heard == 0 and 'unheard' or 'kept'`),

  /** The worker ends before the rollout does, and is no longer to be waited for. */
  leave: script(`
    if tonumber(get('run')) ~= tonumber(ARGV[3]) then return 0 end
    set('worker', '-', 'began', 0)
    return 1`),

  /** What was said in a workflow that failed. */
  partial: script(`
    if get('settled:workflow') ~= ARGV[3] or not get('request') then return 'stale' end
    set('partial', ARGV[4], 'has_partial', 1)
    changed()
    return toTell() == 0 and 'unheard' or 'kept'`),

  /** Ends a rollout that no run has, and asks the worker of any other to end it. */
  cancel: script(`
    local reason, outcome, message, status = unpack(ARGV, 3, 6)
    local before = get('status')
    -- Whoever cancels a lease again is answered the same.
    if get('kind') == 'lease' and get('cancelled') then return { get('cancelled') } end
    if not before or not listed[before] or get('cancel') then return { 'not_found' } end
    set('cancel', reason)
    local said = before == 'queued' and 'cancelled_queued' or 'cancelled_running'
    if not get('end') then set('cancelled', said) end
    if get('run') ~= '0' then
      tellWorker()
      return { said }
    end
    set('workflow', outcome, 'settled:workflow', '-', 'run', 1, 'error', message)
    redis.call('ZREM', prefix .. ':deadlines', id)
    enter(status)
    changed()
    return { said, toTell() == 0 and 'unheard' or 'ended' }`),
}
