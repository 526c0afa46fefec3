import { luaScript } from './script-library.ts'

/** Acceptance and delivery of a rollout. */
export const deliveryScripts = {
  accept: luaScript('enter')`
    local kind, digest, answer, code, may_grade, limit_ms, most_queued, keep_ms = unpack(ARGV, 3, 10)
    local lease_ms, token, server, deliver_ms, request, delivery = unpack(ARGV, 11, 16)
    read('status', 'digest', 'answer', 'token_digest')
    if get('status') then
      local same = get('digest') == digest
      -- The same token means that the server repeats a request whose answer was lost.
      if same and token ~= '' and get('token_digest') == token then
        return { 'new', get('answer') }
      end
      return { same and 'known' or 'contradicted', get('answer') }
    end
    if most_queued ~= '' and redis.call('ZCARD', prefix .. ':queued') >= tonumber(most_queued) then
      return { 'full', '' }
    end
    local admitted = now()
    set('kind', kind, 'digest', digest, 'answer', answer, 'code', code, 'admitted_at', admitted,
      'run', 0, 'version', 0, 'calls', 0, 'downed', 0, 'request', request, 'delivery', delivery)
    known.admitted_at = admitted
    if may_grade == '1' then set('may_grade', 1) end
    if token ~= '' then set('token_digest', token) end
    if server ~= '' then set('server', server, 'deliver_ms', deliver_ms) end
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
    return { 'new', answer }`,

  /** The record has a job, so it is stored until the rollout has ended. */
  hasJob: luaScript()`
    if redis.call('EXISTS', record) == 0 then return 0 end
    set('job', 1)
    return redis.call('ZREM', prefix .. ':jobless', id)`,

  /** Deletes a record without a job, whose acceptance was never answered because the server exited. */
  abandon: luaScript()`
    redis.call('ZREM', prefix .. ':jobless', id)
    -- Taken by a worker, or ended without one.
    if get('job') or get('status') ~= 'queued' then return 0 end
    for _, list in ipairs({ ':queued', ':deadlines', ':leases' }) do
      redis.call('ZREM', prefix .. list, id)
    end
    return redis.call('DEL', record)`,

  allowGrading: luaScript('changed', 'noteDelivered', 'notifyWorker')`
    local how, report = ARGV[3], ARGV[4]
    read('status', 'worker', 'run')
    local status = get('status')
    if not status then return 0 end
    if how ~= '' then noteDelivered('completion', how) end
    if report ~= '' and get('delivery') then set('report', report) end
    if not listed[status] then return 1 end
    set('may_grade', 1, 'at:allowed', now())
    notifyWorker('grade')
    return 0`,

  storeCallback: luaScript()`
    local kind, body = ARGV[3], ARGV[4]
    read('status', 'delivered:' .. kind)
    if not get('status') or get('delivered:' .. kind) then return false end
    -- Bodies are long, and the caller has this one.
    if redis.call('HSETNX', record, 'callback:' .. kind, body) == 1 then return 1 end
    return get('callback:' .. kind)`,

  noteDelivered: luaScript('changed', 'noteDelivered')`
    if redis.call('EXISTS', record) == 0 then return 0 end
    noteDelivered(ARGV[3], ARGV[4])
    return 1`,

  /** A process sweeps. Returns how long processes have reached Redis without a pause. */
  served: luaScript('servedMs')`
    local ms, key = servedMs(), prefix .. ':served'
    if ms == 0 then redis.call('HSET', key, 'since', now()) end
    redis.call('HSET', key, 'at', now())
    redis.call('PEXPIRE', key, ARGV[3])
    return ms`,

  /** Replaces the error message in the status of a rollout. */
  rewordError: luaScript()`
    if get('error') then set('error', ARGV[3]) end`,

  /** A callback is still pending. */
  deliverLater: luaScript('awaitDelivery')`
    if redis.call('EXISTS', record) == 1 then awaitDelivery(true) end`,

  /** A server is delivering these, so no other server is notified. */
  postpone: luaScript()`
    local due = now() + ARGV[3]
    for n = 4, #ARGV do redis.call('ZADD', prefix .. ':undelivered', 'XX', due, ARGV[n]) end`,

  /** Everything is delivered: only the fields for repeated requests and the status stay. */
  finish: luaScript('changed', 'noteDelivered')`
    local keep_ms, kind, how = ARGV[3], ARGV[4], ARGV[5]
    read('status', 'job', 'lease_ms', 'limit')
    if not get('status') then return 0 end
    local lists = { ':undelivered' }
    if not get('job') then table.insert(lists, ':jobless') end
    if get('limit') then table.insert(lists, ':deadlines') end
    if get('lease_ms') then table.insert(lists, ':leases') end
    if kind ~= '' then noteDelivered(kind, how) end
    redis.call('HDEL', record, 'request', 'delivery', 'workflow', 'samples', 'partial', 'grading',
      'cancel', 'token', 'limit', 'began', 'asked', 'downed', 'report', 'server',
      'deliver_ms')
    for _, list in ipairs(lists) do redis.call('ZREM', prefix .. list, id) end
    return redis.call('PEXPIRE', record, keep_ms)`,
}

/** Steps of an execution. Each is refused to an abandoned execution. */
export const runScripts = {
  take: luaScript('stateAfter', 'afterLoss', 'servedMs', 'enter', 'changed')`
    local worker, token, code, settled_ms, knows, grace_ms = unpack(ARGV, 3, 8)
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
      if not stateAfter('execution_started') then return { 'ended' } end
      if holder == worker and tonumber(knows) == run then return { 'mine', run } end
      if holder ~= worker then
        local silent_ms = redis.call('PTTL', prefix .. ':worker:' .. holder)
        if silent_ms ~= -2 then return { 'busy', run, silent_ms } end
        -- A Redis that was not reached has not yet received the heartbeats of live workers.
        local left_ms = settled_ms - servedMs()
        if left_ms > 0 then return { 'busy', run, left_ms } end
      end
      if tonumber(get('began')) == run then
        set('began', 0)
        known.downed = redis.call('HINCRBY', record, 'downed', 1)
      end
      local reason = afterLoss({
        cancelled = get('cancel') and 1,
        calledPolicy = tonumber(get('asked')) == run and 1,
        lostWorkers = tonumber(get('downed')),
        executions = run,
      })
      if reason then return { 'lost', run, reason, get('cancel') or '', get('calls') } end
    end
    if get('code') ~= code then return { 'other-code', get('code') } end
    -- The first bytes of what the worker can open follow its other arguments.
    local opens = false
    for n = 9, #ARGV do opens = opens or get('request'):sub(1, #ARGV[n]) == ARGV[n] end
    if not opens then return { 'other-keys' } end
    run = run + 1
    set('run', run, 'worker', worker, 'token', token)
    local to = stateAfter('execution_started')
    if to ~= status then enter(to) end
    -- Its worker ends it in time. If it cannot, another process does after a grace period.
    local limit = get('limit')
    if limit then redis.call('ZADD', prefix .. ':deadlines', limit + grace_ms, id) end
    changed()
    return given()`,

  /** User code is about to run. */
  begin: luaScript('stateAfter', 'enter', 'changed')`
    local run = ARGV[3]
    read('run', 'status', 'admitted_at')
    local to = stateAfter('code_started', run)
    if not to then return 0 end
    enter(to, 'began', run)
    changed()
    return 1`,

  /** The mark: the first model call may be sent. */
  mark: luaScript('stateAfter')`
    read('run', 'cancel', 'status', 'asked')
    local run, started = ARGV[3], ARGV[4]
    if not stateAfter('policy_called', run) then return 0 end
    if get('asked') ~= run then redis.call('HINCRBY', record, 'calls', started) end
    set('asked', run)
    return 1`,

  /** Counts model calls of several executions. */
  count: luaScript()`
    for n = 3, #ARGV, 3 do
      local one, run, calls = prefix .. ':rollout:' .. ARGV[n], ARGV[n + 1], ARGV[n + 2]
      if redis.call('HGET', one, 'run') == run then redis.call('HINCRBY', one, 'calls', calls) end
    end`,

  /** The outcome of a phase, from the current execution, or from the process that abandons it. */
  settle: luaScript('stateAfter', 'enter', 'changed', 'awaitDelivery', 'notifyWorker')`
    local run, event, outcome, samples, reward, message, gives_up = unpack(ARGV, 3, 9)
    local phase = event:match('^%a+')
    local waits, calls = ARGV[10] == '1', ARGV[11]
    read('status', 'settled:' .. phase, 'run', 'cancel', 'worker', 'admitted_at', 'kind', 'may_grade',
      'deliver_ms', 'server', 'limit')
    local before = get('status')
    if not before then return 'gone' end
    -- A repeated call does not know whether a server was notified.
    if get('settled:' .. phase) == run then return waits and 'stored' or 'unclaimed' end
    local status, refusal = stateAfter(event, run)
    if not status then return refusal end
    -- An abandoned execution has not written this itself.
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
    local listeners = awaitDelivery(waits)
    if gives_up == '1' then
      known.run = redis.call('HINCRBY', record, 'run', 1)
      notifyWorker()
    end
    changed()
    return listeners == 0 and 'unclaimed' or 'stored'`,

  /** The worker exits before the rollout has ended, so its lock need not expire first. */
  leave: luaScript()`
    if tonumber(get('run')) ~= tonumber(ARGV[3]) then return 0 end
    set('worker', '-', 'began', 0)
    return 1`,

  /** The partial samples of a workflow that failed. */
  partial: luaScript('changed', 'awaitDelivery')`
    if get('settled:workflow') ~= ARGV[3] or not get('request') then return 'stale' end
    set('partial', ARGV[4])
    changed()
    return awaitDelivery() == 0 and 'unclaimed' or 'stored'`,

  /** Ends a rollout that no worker has, or notifies its worker to end it. */
  cancel: luaScript(
    'stateAfter',
    'cancelDispositions',
    'enter',
    'changed',
    'awaitDelivery',
    'notifyWorker',
  )`
    local reason, outcome, message, event = unpack(ARGV, 3, 6)
    local disposition = cancelDispositions[get('status') or 'success']
    -- A repeated cancel of a lease gets the same answer.
    if get('kind') == 'lease' and get('cancelled') then return { get('cancelled') } end
    if disposition == 'not_found' or get('cancel') then return { 'not_found' } end
    set('cancel', reason)
    if not get('ended_at') then set('cancelled', disposition) end
    if get('run') ~= '0' then
      notifyWorker()
      return { disposition }
    end
    set('workflow', outcome, 'settled:workflow', '-', 'run', 1, 'error', message)
    redis.call('ZREM', prefix .. ':deadlines', id)
    enter(stateAfter(event))
    changed()
    return { disposition, awaitDelivery() == 0 and 'unclaimed' or 'ended' }`,
}
