import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import {
  patientPolicy,
  scriptedPolicy,
  type RolloutOrder,
  type RolloutOutcome,
} from '@osmosis/controller'
import { openRun, resumeRun, runEvaluation, toScorer, type RunStore } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { datasetRows, evaluate, modelThat, names, placeOf } from '../evaluations.ts'
import { failedWorkflow, rewarded, sample } from '../rollout-results.ts'
import { answering, askingModel, journalOf, newRun } from '../stored-evaluations.ts'

describe('a run with a store', () => {
  it('writes every outcome to its journal before it acknowledges the result', async () => {
    await using store = await newRun(await temporaryFolder(), 4)
    const { model, server } = await askingModel(scriptedPolicy(() => 'yes'))
    server.journal = () => journalOf(store).length
    await runEvaluation({ names, rows: datasetRows(4), model, store })
    await server.until(() => server.acknowledged.length === 4)
    expect(server.acknowledged).toEqual([
      [200, 1],
      [200, 2],
      [200, 3],
      [200, 4],
    ])
  })

  it('keeps what was said, what the grader saw, and the facts of it', async () => {
    await using store = await newRun(await temporaryFolder(), 1)
    const { model } = await askingModel(scriptedPolicy(() => 'yes'))
    const scorers = [toScorer('same', ({ reward }: { reward: number }) => reward)]
    await runEvaluation({ names, rows: datasetRows(1), model, store, scorers })
    const [event] = journalOf(store) as [ItemEvent]
    expect(event).toMatchObject({
      row_index: 0,
      run_index: 0,
      source_row_index: 0,
      status: 'success',
      reward: 1,
      samples: { main: 1 },
      scores: { same: 1 },
      calls: 1,
      finish: { stop: 1 },
      rewritten: 0,
      metrics: { length: 3 },
      grading_ms: expect.any(Number),
      summary: 'yes',
      row_key: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
    expect(event.tokens).toBeGreaterThan(0)
    const run = await openRun(store.location)
    const said = await run.trajectories(event)
    expect(said).toMatchObject({
      state: 'found',
      value: { main: { steps: [{ source: 'user' }, { source: 'agent', message: 'yes' }] } },
    })
    expect(await run.graded(event)).toMatchObject({
      state: 'found',
      value: {
        label: '0',
        metadata: null,
        artifacts: null,
        samples: { main: { messages: [{ role: 'user' }, { content: 'yes' }] } },
        wire: { main: {} },
      },
    })
  })

  it('keeps the conversation of a rollout that failed', async () => {
    await using store = await newRun(await temporaryFolder(), 1)
    const { model } = await askingModel(answering(400))
    await runEvaluation({ names, rows: datasetRows(1), model, store })
    const [event] = journalOf(store) as [ItemEvent]
    expect(event).toMatchObject({ status: 'failed', error_type: 'http_error', calls: 0 })
    expect(await (await openRun(store.location)).trajectories(event)).toMatchObject({
      value: {
        main: {
          steps: [{ source: 'user', message: '0 × 0' }],
          extra: {
            osmosis: {
              failures: [{ phase: 'workflow', category: 'http_error', message: 'no answer' }],
              calls_without_step: [{ error: 'The policy answered 400: sorry' }],
            },
          },
        },
      },
    })
  })

  it('writes figures to metrics.json, and no secret to any file', async () => {
    await using store = await newRun(await temporaryFolder(), 2)
    const { model } = await askingModel(scriptedPolicy(() => 'sesame'))
    const redact = <T>(data: T): T =>
      JSON.parse(JSON.stringify(data).replaceAll('sesame', '[redacted]')) as T
    await runEvaluation({ names, rows: datasetRows(2), model, store, redact })
    const text = (file: string): string => readFileSync(path.join(store.location, file), 'utf8')
    expect(text('trajectories/0000.jsonl')).toContain('[redacted]')
    for (const file of ['trajectories/0000.jsonl', 'samples/0000.jsonl', 'events.jsonl']) {
      expect(text(file)).not.toContain('sesame')
    }
    expect(JSON.parse(text('metrics.json'))).toMatchObject({
      eval_run: { id: '0'.repeat(32), status: 'finished' },
      summary: { total_samples: 2 },
      stats: { measure: 'reward', mean: { value: 0, rows: 2 } },
      groups: { rows: 2, never: 2 },
      behaviour: { calls: expect.any(Object) },
      findings: expect.any(Array),
    })
    expect(JSON.parse(text('progress.json'))).toMatchObject({ status: 'finished', done: 2 })
  })
})

describe('a run that is started again', () => {
  async function started(
    store: RunStore,
    n = 1,
    options: Parameters<typeof evaluate>[2] = {},
  ): Promise<string[]> {
    const places: string[] = []
    await evaluate(
      store.manifest.rows.length,
      (order: RolloutOrder) => {
        places.push(placeOf(order))
        return placeOf(order) === '1/0' ? failedWorkflow('boom') : rewarded(1)
      },
      { store, n, ...options },
    )
    return places
  }

  it('runs what has not ended, and its result is about all of it', async () => {
    const outputRoot = await temporaryFolder()
    const store = await newRun(outputRoot, 3)
    const abort = new AbortController()
    const first = await evaluate(
      3,
      (order) => {
        if (placeOf(order) === '1/0') abort.abort(new Error('interrupted'))
        return rewarded(1)
      },
      { store, signal: abort.signal },
    )
    expect([first.status, first.pending]).toEqual(['incomplete', 1])
    await store.close()

    await using again = await resumeRun({ location: store.location })
    const result = await evaluate(3, () => rewarded(0), { store: again })
    expect(result.items.map(({ row_index: row, reward }) => [row, reward])).toEqual([
      [0, 1],
      [1, 1],
      [2, 0],
    ])
    expect(result).toMatchObject({
      status: 'finished',
      id: '0'.repeat(32),
      startedAt: new Date('2026-01-02T03:04:05.000Z'),
    })
    expect(result.model.summary).toMatchObject({ total_samples: 3, passed: 2 })
    expect(await started(again)).toEqual([])
  })

  it('runs exactly the missing half when the attempts are doubled', async () => {
    await using store = await newRun(await temporaryFolder(), 2, 2)
    expect(await started(store, 2)).toEqual(['0/0', '0/1', '1/0', '1/1'])
    await store.grow({ n: 4 })
    expect(await started(store, 4)).toEqual(['0/2', '0/3', '1/2', '1/3'])
  })

  it('does not repeat failures unless requested', async () => {
    await using store = await newRun(await temporaryFolder(), 2)
    await started(store)
    expect(await started(store)).toEqual([])
    const runAgain = ({ error_type: type }: ItemEvent): boolean => type === 'timeout'
    expect(await started(store, 1, { runAgain })).toEqual([])
    const result = await evaluate(2, () => rewarded(1), {
      store,
      runAgain: ({ status }) => status === 'failed',
    })
    expect(result.items.map(({ status }) => status)).toEqual(['success', 'success'])
    expect(journalOf(store)).toHaveLength(3)
  })
})

describe('an item that fails', () => {
  it('because the policy refuses the key stays pending, and nothing more is started', async () => {
    await using store = await newRun(await temporaryFolder(), 20)
    const { model } = await askingModel(answering(200, 200, 200, 401))
    const result = await runEvaluation({ names, rows: datasetRows(20), model, store })
    expect(result).toMatchObject({
      status: 'incomplete',
      incompleteReason: 'The policy answered 401: sorry',
      pending: 17,
    })
    expect(journalOf(store).map(({ status }) => status)).toEqual(['success', 'success', 'success'])
  })

  it('for 503 stops the run after 20 in a row, and none has failed', async () => {
    await using store = await newRun(await temporaryFolder(), 40)
    const { model } = await askingModel(answering(200, 503))
    const rows = datasetRows(40)
    const result = await runEvaluation({ names, rows, model, store })
    expect(result).toMatchObject({
      status: 'incomplete',
      incompleteReason:
        '20 consecutive rollouts were lost to the policy. The policy answered 503: sorry',
    })
    expect(journalOf(store)).toHaveLength(1)
  })

  it('for 429 runs again after the others, as another rollout, and has not failed', async () => {
    await using store = await newRun(await temporaryFolder(), 3)
    const statuses = [429, 200, 429, 200, 429, 429, 200]
    const policy = answering(...statuses)
    const rollouts = new Set<string>()
    const { model } = await askingModel({
      name: 'p',
      respond: async (request) => {
        rollouts.add(request.rolloutId)
        return policy.respond(request)
      },
    })
    const result = await runEvaluation({ names, rows: datasetRows(3), model, store })
    expect(result).toMatchObject({ status: 'finished', model: { summary: { failed: 0 } } })
    expect(journalOf(store).map((event) => event.row_index)).toEqual([1, 0, 2])
    expect(rollouts.size).toBe(statuses.length)
  })

  it('for 429 stops the run when no item has ended for too long, and none has failed', async () => {
    await using store = await newRun(await temporaryFolder(), 3)
    const { model } = await askingModel(answering(200, 429))
    const rows = datasetRows(3)
    const result = await runEvaluation({ names, rows, model, store, patienceMs: 0 })
    expect(result).toMatchObject({
      status: 'incomplete',
      incompleteReason:
        'No rollout has ended for 0.0 s. The last one was lost: The policy answered 429: sorry',
      pending: 2,
    })
  })

  it('for 429 halts when the policy has answered nothing else for too long', async () => {
    await using store = await newRun(await temporaryFolder(), 3)
    const policy = patientPolicy(answering(200, 429), { firstPauseMs: 1, patienceMs: 1 })
    const { model } = await askingModel(policy)
    const result = await runEvaluation({
      names,
      rows: datasetRows(3),
      model: { ...model, policy },
      store,
    })
    expect(result).toMatchObject({
      status: 'incomplete',
      incompleteReason: 'The policy has answered nothing but 429 for 0 minutes: sorry',
      pending: 2,
    })
  })

  it('for 429 reduces concurrency, which recovers without further refusals', async () => {
    const inFlight: number[] = []
    const policy = { failure: null, refusals: 0 }
    let ended = 0
    const model = modelThat(() => {
      ended += 1
      if (ended === 1) policy.refusals = 1
      return rewarded(1)
    })
    await runEvaluation({
      names,
      rows: datasetRows(40),
      model: { ...model, policy },
      maxInFlight: 8,
      onProgress: ({ inFlight: { limit, max } }) => inFlight.push(limit / max),
    })
    expect(Math.min(...inFlight)).toBe(0.5)
    expect(inFlight.at(-1)).toBe(1)
  })

  const lost = (): RolloutOutcome => ({
    ...failedWorkflow('the worker process ended'),
    lostWith: 'worker_lost',
  })

  it('because its worker was killed runs again as another rollout, and has not failed', async () => {
    await using store = await newRun(await temporaryFolder(), 3)
    const sent = new Map<string, string>()
    const { status, model } = await evaluate(
      3,
      (order) => {
        const isFirst = placeOf(order) === '1/0' && ![...sent.values()].includes('1/0')
        sent.set(order.rolloutId ?? '', placeOf(order))
        return isFirst ? lost() : rewarded(1)
      },
      { store },
    )
    expect([status, model.summary.failed]).toEqual(['finished', 0])
    expect([...sent.values()]).toEqual(['0/0', '1/0', '2/0', '1/0'])
    expect(journalOf(store).map((event) => event.row_index)).toEqual([0, 2, 1])
  })

  it('because its worker exits repeatedly has failed with an error type of its own', async () => {
    await using store = await newRun(await temporaryFolder(), 3)
    let runs = 0
    const answer = (order: RolloutOrder): RolloutOutcome => {
      if (placeOf(order) === '0/0') return failedWorkflow('boom')
      if (placeOf(order) === '2/0') return rewarded(1)
      runs += 1
      return lost()
    }
    const { status, items } = await evaluate(3, answer, { store })
    expect(status).toBe('finished')
    expect(items.map((item) => item.error_type)).toEqual(['agent_error', 'worker_lost', null])
    expect(runs).toBe(3)
  })

  it('for 503 has failed once the policy answers again, or all items have ended', async () => {
    await using store = await newRun(await temporaryFolder(), 4)
    const { model } = await askingModel(answering(503, 503, 200, 503))
    const announced: (string | null)[] = []
    const result = await runEvaluation({
      names,
      rows: datasetRows(4),
      model,
      store,
      onItem: (item) => announced.push(item.error_type),
    })
    expect(result.status).toBe('finished')
    expect(announced).toEqual(['http_error', 'http_error', null, 'http_error'])
    expect(journalOf(store)).toHaveLength(4)
  })

  it('with an error of a megabyte stores its beginning and end, and how much is omitted', async () => {
    await using store = await newRun(await temporaryFolder(), 1)
    const error = `It began. ${'x'.repeat(1_000_000)} It ended.`
    const { items } = await evaluate(1, () => failedWorkflow(error), { store })
    const [event] = journalOf(store)
    const message = event?.error_message?.replaceAll(/x+/g, 'x')
    expect(message).toBe('It began. x\n… 991828 of 1000020 characters omitted …\nx It ended.')
    expect(event?.error_message?.length).toBeLessThan(8300)
    expect(items[0]?.error_message === event?.error_message).toBe(true)
  })

  it('with an error that is full of secrets keeps no piece of one where it was cut', async () => {
    await using store = await newRun(await temporaryFolder(), 1)
    const redact = <T>(data: T): T =>
      typeof data === 'string' ? (data.replaceAll('planted-secret', '?') as T) : data
    await evaluate(1, () => failedWorkflow('planted-secret '.repeat(10_000)), { store, redact })
    expect(journalOf(store)[0]?.error_message).toMatch(/^[? ]+\n… .* …\n[? ]+$/)
  })

  it('with an error of a megabyte stores a longer excerpt in its document', async () => {
    await using store = await newRun(await temporaryFolder(), 1)
    const error = `It began. ${'x'.repeat(1_000_000)} It ended.`
    const samples = new Map([sample('main')])
    await evaluate(1, () => ({ ...failedWorkflow(error), samples }), { store })
    const said = readFileSync(path.join(store.location, 'trajectories/0000.jsonl'), 'utf8')
    expect(said.length).toBeGreaterThan(65_536)
    expect(said.length).toBeLessThan(70_000)
    expect(said).toContain('… 934484 of 1000020 characters omitted …')
  })

  it('for 429 with Retry-After is retried, and no other call is made meanwhile', async () => {
    await using store = await newRun(await temporaryFolder(), 12)
    const yes = scriptedPolicy(() => 'yes')
    const calls = { all: 0, inPause: 0 }
    let isPause = false
    const pauseMs = 300
    const { model } = await askingModel(
      patientPolicy({
        name: 'p',
        respond: async (request) => {
          calls.all += 1
          if (isPause) calls.inPause += 1
          if (calls.all !== 4) return yes.respond(request)
          setImmediate(() => (isPause = true))
          setTimeout(() => (isPause = false), pauseMs - 10)
          return new Response('slowly', {
            status: 429,
            headers: { 'retry-after-ms': String(pauseMs) },
          })
        },
      }),
    )
    const result = await runEvaluation({
      names,
      rows: datasetRows(12),
      model,
      store,
      maxInFlight: 4,
    })
    expect([result.status, result.model.summary.failed, calls]).toEqual([
      'finished',
      0,
      { all: 13, inPause: 0 },
    ])
  })

  it('for 400 is a failure of its row', async () => {
    await using store = await newRun(await temporaryFolder(), 30)
    const { model } = await askingModel(answering(400))
    const rows = datasetRows(30)
    const result = await runEvaluation({ names, rows, model, store, failOnError: false })
    expect([result.status, result.model.summary.failed]).toEqual(['finished', 30])
  })
})

it('durations stay correct when the clock was set back during a run', async () => {
  const started = await newRun(await temporaryFolder(), 2)
  await started.close()
  const file = path.join(started.location, 'manifest.json')
  const manifest = { ...started.manifest, created_at: '2999-01-02T03:04:05.000Z' }
  writeFileSync(file, JSON.stringify(manifest))
  await using store = await resumeRun({ location: started.location })
  const { status, durationMs } = await evaluate(2, () => rewarded(1), { store })
  expect(status).toBe('finished')
  expect(durationMs).toBeGreaterThanOrEqual(0)
  expect(journalOf(store).every(({ duration_ms: ms }) => ms >= 0)).toBe(true)
})

it('an outcome that cannot be stored halts the run without a failed item', async () => {
  const store = await newRun(await temporaryFolder(), 5)
  await store.close()
  const { status, incompleteReason, pending } = await evaluate(5, () => rewarded(1), { store })
  expect([status, incompleteReason, pending]).toEqual([
    'incomplete',
    `The run ${store.location} is closed.`,
    5,
  ])
})
