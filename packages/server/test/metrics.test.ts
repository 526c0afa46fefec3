import { once } from 'node:events'

import { requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import type { BackendWorkers } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it, vi } from 'vitest'

import {
  answerStream,
  metricsIn,
  post,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  temporaryFolder,
  type Metrics,
} from '../../../test/kit/index.ts'
import { leasing } from './leasing-server.ts'
import { askPolicy, AskOnce, graderOf, startServer, workflowOf } from './running-server.ts'

async function metricsOf(url: string): Promise<Metrics> {
  const response = await fetch(`${url}/metrics`)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  return metricsIn(await response.text())
}

/**
 * The figures whose names begin so, without those that say how long something took, and kinds of events of
 * which there was none.
 */
function figures(metrics: Metrics, ...names: string[]): Record<string, number> {
  const wanted = [...metrics].filter(
    ([key, figure]) =>
      names.some((name) => key.startsWith(name)) &&
      !/_bucket\{|_sum(\{|$)/.test(key) &&
      (figure > 0 || !key.includes('_total{')),
  )
  return Object.fromEntries(wanted)
}

async function hang(ctx: AgentWorkflowContext): Promise<void> {
  await askPolicy(ctx)
  await once(ctx.signal, 'abort')
  ctx.signal.throwIfAborted()
}

const retryAtOnce = { 'retry-after-ms': '1' }

it('counts exactly what happened to rollouts, model calls and callbacks', async () => {
  const tries = new Map<string, number>()
  const policy = await startPolicyEndpoint((response, _, { headers }) => {
    const id = String(headers['x-rollout-id'])
    const attempt = (tries.get(id) ?? 0) + 1
    tries.set(id, attempt)
    if (id === 'flaky' && attempt < 3) response.writeHead(503, retryAtOnce).end()
    else if (id === 'refused-by-policy') sendJson(response, 400, { error: 'no' })
    else sendStream(response, answerStream('yes'))
  })
  await using running = await startServer({
    workflow: workflowOf(async (ctx) => {
      if (ctx.rolloutId === 'late' || ctx.rolloutId === 'cancelled') return hang(ctx)
      return askPolicy(ctx)
    }),
    grader: graderOf((ctx) => {
      if (ctx.rolloutId === 'misjudged') throw new TypeError('no such field')
      ctx.setReward(1)
    }),
  })
  const { url, controller } = running
  const send = async (rollout_id: string, more: object = {}): Promise<void> => {
    const known = controller.callbacks.length
    await running.post({ rollout_id, chat_completions_url: policy.url, ...more })
    if (rollout_id === 'cancelled') {
      await vi.waitUntil(() => tries.has('cancelled'), 60_000)
      await post(`${url}/rollout/cancel`, { ids: ['cancelled'] })
    }
    await controller.until(() => controller.callbacks.length >= known + 2)
  }
  await send('good')
  await send('misjudged')
  await send('late', { agent_timeout_sec: 0.2 })
  await send('cancelled')
  await send('flaky')
  await send('refused-by-policy')
  controller.answers['completion'] = [503, 503]
  controller.answers['grader'] = [410]
  await running.post({ rollout_id: 'unheard', chat_completions_url: policy.url })

  await vi.waitFor(async () => {
    const metrics = await metricsOf(url)
    expect(metrics.get('osmosis_rollouts_in_flight')).toBe(0)
    const ended = (outcome: string, category: string, phase: string): string =>
      `osmosis_rollouts_ended_total{outcome="${outcome}",category="${category}",phase="${phase}"}`
    expect(figures(metrics, 'osmosis_rollout')).toStrictEqual({
      osmosis_rollouts_in_flight: 0,
      'osmosis_rollouts{state="queued"}': 0,
      'osmosis_rollouts{state="running"}': 0,
      osmosis_rollout_slots: 4,
      [ended('success', 'none', 'grading')]: 3,
      [ended('failure', 'validation_error', 'grading')]: 1,
      [ended('failure', 'timeout', 'workflow')]: 1,
      [ended('cancelled', 'agent_error', 'workflow')]: 1,
      [ended('failure', 'http_error', 'workflow')]: 1,
      'osmosis_rollout_phase_seconds_count{phase="queue"}': 7,
      'osmosis_rollout_phase_seconds_count{phase="workflow"}': 7,
      'osmosis_rollout_phase_seconds_count{phase="grading"}': 4,
    })
    expect(figures(metrics, 'osmosis_policy')).toStrictEqual({
      'osmosis_policy_calls_total{outcome="stop"}': 6,
      'osmosis_policy_calls_total{outcome="error"}': 1,
      osmosis_policy_retries_total: 2,
      'osmosis_policy_tokens_total{direction="input"}': 18,
      'osmosis_policy_tokens_total{direction="output"}': 12,
      osmosis_policy_call_seconds_count: 7,
      osmosis_policy_first_chunk_seconds_count: 6,
    })
    expect(figures(metrics, 'osmosis_callback')).toStrictEqual({
      'osmosis_callback_attempts_total{kind="completion"}': 9,
      'osmosis_callback_attempts_total{kind="grader"}': 7,
      'osmosis_callbacks_total{kind="completion",outcome="acknowledged"}': 7,
      'osmosis_callbacks_total{kind="grader",outcome="acknowledged"}': 6,
      'osmosis_callbacks_total{kind="grader",outcome="refused"}': 1,
      'osmosis_callbacks_undelivered{state="sending"}': 0,
      'osmosis_callbacks_undelivered{state="gave_up"}': 0,
      osmosis_callback_oldest_seconds: 0,
    })
    expect(figures(metrics, 'osmosis_http_requests_total{route="/rollout')).toStrictEqual({
      'osmosis_http_requests_total{route="/rollout",status="202"}': 7,
      'osmosis_http_requests_total{route="/rollout/cancel",status="200"}': 1,
    })
  }, 60_000)
})

it('shows every kind of event with 0 at first, so that the first event is an increase', async () => {
  await using running = await startServer()
  const before = await metricsOf(running.url)
  expect([...before.keys()]).toEqual(
    expect.arrayContaining([
      'osmosis_callbacks_total{kind="grader",outcome="gave_up"}',
      'osmosis_callback_attempts_total{kind="completion"}',
      'osmosis_rollouts_ended_total{outcome="failure",category="timeout",phase="queue"}',
      'osmosis_rollouts_ended_total{outcome="success",category="none",phase="grading"}',
      'osmosis_policy_calls_total{outcome="error"}',
    ]),
  )
  await running.post()
  await running.controller.bodies()
  const after = [...(await metricsOf(running.url)).keys()]
  const added = after.filter((key) => key.includes('_total{') && !before.has(key))
  expect(added.toSorted()).toStrictEqual([
    'osmosis_http_requests_total{route="/metrics",status="200"}',
    'osmosis_http_requests_total{route="/rollout",status="202"}',
  ])
})

it('counts model calls under ids that gave no sample as well', async () => {
  const returning = workflowOf(async (ctx) => {
    await requireRolloutContext('test').policy('aside').complete({ messages: [] })
    await askPolicy(ctx)
  })
  await using running = await startServer({ workflow: returning })
  await running.post()
  await running.controller.bodies()
  expect((await metricsOf(running.url)).get('osmosis_policy_calls_total{outcome="stop"}')).toBe(2)
})

it('has counted everything at each scrape, whether few or many', async () => {
  const asking = workflowOf(async (ctx) => {
    const policy = requireRolloutContext('test').policy('aside')
    const calls = Array.from({ length: Number(ctx.metadata?.['calls']) })
    await Promise.all(calls.map(() => policy.complete({ messages: [] })))
    await askPolicy(ctx)
  })
  await using running = await startServer({ workflow: asking })
  const { controller, url } = running
  let sum = 0
  for (const [n, calls] of [1, 250, 0, 120].entries()) {
    await running.post({ rollout_id: `r-${n}`, metadata: { calls } })
    await controller.until(() => controller.callbacks.length === 2 * (n + 1))
    sum += calls + 1
    const metrics = await metricsOf(url)
    expect(metrics.get('osmosis_policy_calls_total{outcome="stop"}')).toBe(sum)
    expect(metrics.get('osmosis_policy_call_seconds_count')).toBe(sum)
    expect(metrics.get('osmosis_rollout_phase_seconds_count{phase="workflow"}')).toBe(n + 1)
  }
})

it('measures the time of the workflow in seconds', async () => {
  await using running = await startServer({ workflow: workflowOf(hang), grader: null })
  await running.post({ agent_timeout_sec: 0.3 })
  await running.controller.bodies()

  const metrics = await metricsOf(running.url)
  const sum = metrics.get('osmosis_rollout_phase_seconds_sum{phase="workflow"}') ?? 0
  expect(sum).toBeGreaterThan(0.25)
  expect(sum).toBeLessThan(10)
})

it('shows callbacks that are not answered, and their age', async () => {
  await using running = await startServer()
  running.controller.answers['completion'] = [() => undefined]
  await running.post()
  await running.controller.until(() => running.controller.callbacks.length === 1)

  const metrics = await metricsOf(running.url)
  expect(metrics.get('osmosis_callbacks_undelivered{state="sending"}')).toBe(1)
  expect(metrics.get('osmosis_callback_oldest_seconds')).toBeGreaterThan(0)
  const later = await metricsOf(running.url)
  expect(later.get('osmosis_callback_oldest_seconds')).toBeGreaterThan(
    metrics.get('osmosis_callback_oldest_seconds') ?? 0,
  )
})

it('shows leases, stored results, and lapsed leases', async () => {
  await using server = await leasing({
    leases: { waitSeconds: 0.05, leaseSeconds: 0.3 },
    workflow: workflowOf(async (ctx) => (ctx.rolloutId === 'lapsing' ? hang(ctx) : askPolicy(ctx))),
  })
  const handle = await server.start({ rollout_id: 'stored' })
  await handle.until()
  const shown = figures(await metricsOf(server.url), 'osmosis_lease')
  expect(shown).toMatchObject({ osmosis_leases_held: 0, osmosis_lease_results: 1 })
  expect(shown['osmosis_lease_result_bytes']).toBeGreaterThan(50)
  // On a slow machine the first lease may have lapsed between two polls.
  const lapsed = shown['osmosis_leases_lapsed_total'] ?? 0

  await server.start({ rollout_id: 'lapsing' })
  expect((await metricsOf(server.url)).get('osmosis_leases_held')).toBe(1)
  await vi.waitFor(async () => {
    const metrics = await metricsOf(server.url)
    expect(figures(metrics, 'osmosis_leases')).toStrictEqual({
      osmosis_leases_held: 0,
      osmosis_leases_lapsed_total: lapsed + 1,
    })
  }, 60_000)
})

it('shows the rollouts in the outbox', async () => {
  const outboxDir = await temporaryFolder()
  await using running = await startServer({ outboxDir, workflow: workflowOf(hang) })
  await running.post({ rollout_id: 'a' })
  await running.post({ rollout_id: 'b' })
  expect((await metricsOf(running.url)).get('osmosis_outbox_rollouts')).toBe(2)
  await post(`${running.url}/rollout/cancel`, { all: true })
  await vi.waitFor(async () => {
    expect((await metricsOf(running.url)).get('osmosis_outbox_rollouts')).toBe(0)
  }, 60_000)
})

it('shows the processes of a backend that has some', async () => {
  class WithWorkers extends LocalBackend {
    workers(): BackendWorkers {
      return {
        running: 2,
        restarts: { exit: 3, stall: 1 },
        residentBytes: 150_000_000,
        cpuSeconds: 12.5,
      }
    }
  }
  await using running = await startServer({ backend: new WithWorkers({ workflow: AskOnce }) })
  expect(figures(await metricsOf(running.url), 'osmosis_worker')).toStrictEqual({
    osmosis_workers: 2,
    'osmosis_worker_restarts_total{reason="exit"}': 3,
    'osmosis_worker_restarts_total{reason="stall"}': 1,
    osmosis_worker_resident_memory_bytes: 150_000_000,
    osmosis_worker_cpu_seconds_total: 12.5,
  })
})

it('shows the process under the names that dashboards know, and the delay of its event loop', async () => {
  await using running = await startServer()
  const first = await metricsOf(running.url)
  expect(first.get('process_resident_memory_bytes')).toBeGreaterThan(1e7)
  expect(first.get('nodejs_heap_size_used_bytes')).toBeGreaterThan(1e6)
  expect(first.get('process_cpu_seconds_total')).toBeGreaterThan(0)
  expect(first.get('process_start_time_seconds')).toBeGreaterThan(1.7e9)

  await new Promise((resolve) => setTimeout(resolve, 50))
  // Blocks the thread without using the processor.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  await vi.waitFor(async () => {
    const metrics = await metricsOf(running.url)
    expect(metrics.get('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0.3)
  }, 60_000)
})

it('requires the key, and shows no key, id, address or name of user code', async () => {
  await using running = await startServer({ apiKey: 'server-key-1234' })
  const key = { authorization: 'Bearer server-key-1234' }
  await running.post({ rollout_id: 'id-5678', llm_api_key: 'llm-key-9999' }, key)
  await running.controller.bodies()
  expect((await fetch(`${running.url}/metrics`)).status).toBe(401)

  const text = await (await fetch(`${running.url}/metrics`, { headers: key })).text()
  metricsIn(text)
  expect(text).toContain('osmosis_http_requests_total{route="/metrics",status="401"} 1')
  for (const planted of [
    'server-key',
    'llm-key',
    'controller-key',
    'id-5678',
    '127.0.0.1',
    'AskOnce',
  ]) {
    expect(text).not.toContain(planted)
  }
})

it('separates the figures of two servers in one process', async () => {
  await using one = await startServer()
  await using other = await startServer()
  await one.post()
  await one.controller.bodies()
  const name = 'osmosis_rollouts_ended_total{outcome="success",category="none",phase="grading"}'
  expect((await metricsOf(one.url)).get(name)).toBe(1)
  expect((await metricsOf(other.url)).get(name)).toBe(0)
})

it('ignores invalid model calls of sources', async () => {
  await using running = await startServer({
    workflow: workflowOf(() => {
      requireRolloutContext('test').registerSampleSource('odd', {
        getSample: (id) => ({ id, messages: [], calls: [null], reward: null }) as never,
      })
    }),
    grader: graderOf((ctx) => ctx.setReward(1)),
  })
  await running.post()
  expect(await running.controller.bodies()).toMatchObject([
    { status: 'success' },
    { status: 'success' },
  ])
})
