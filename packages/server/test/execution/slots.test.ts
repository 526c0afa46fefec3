import {
  type AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  OsmosisError,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import type { RolloutObserver } from '@osmosis/protocol'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  request,
  run,
  workflow,
} from '../../../../test/kit/executed-rollouts.ts'

/** A workflow that runs until it is released, and the order in which rollouts started. */
function gated(): {
  workflow: new (config: unknown) => AgentWorkflow
  started: string[]
  open: (rolloutId: string) => void
} {
  const gates = new Map<string, PromiseWithResolvers<undefined>>()
  const gate = (id: string): PromiseWithResolvers<undefined> => {
    const known = gates.get(id) ?? Promise.withResolvers<undefined>()
    gates.set(id, known)
    return known
  }
  const started: string[] = []
  return {
    started,
    open: (id) => gate(id).resolve(undefined),
    workflow: workflow(async ({ rolloutId }) => {
      started.push(rolloutId)
      registerSamples('main')
      await gate(rolloutId).promise
    }),
  }
}

describe('slots', () => {
  it('are assigned in the order of requests', async () => {
    const gate = gated()
    const backend = new LocalBackend({ workflow: gate.workflow, maxConcurrent: 2 })
    const all = Promise.all(
      ['a', 'b', 'c', 'd'].map((rolloutId) => run(backend, { rolloutId, grade: false })),
    )
    expect(backend.load()).toEqual({ maxConcurrent: 2, queued: 2, running: 2 })
    expect(['a', 'c'].map((id) => backend.status(id).status)).toEqual(['queued', 'queued'])
    for (const id of ['b', 'a', 'd', 'c']) gate.open(id)
    await all
    expect(gate.started).toEqual(['a', 'b', 'c', 'd'])
    expect(backend.load()).toEqual({ maxConcurrent: 2, queued: 0, running: 0 })
  })

  it.each([
    ['4 without a config', undefined, 4],
    ['unlimited when the config sets no limit', defineWorkflowConfig({ name: 'w' }), null],
    [
      'the limit of the config',
      defineWorkflowConfig({ name: 'w', concurrency: { maxConcurrent: 7 } }),
      7,
    ],
  ])('are %s', (_what, workflowConfig, maxConcurrent) => {
    const backend = new LocalBackend({ workflow: workflow(() => {}), workflowConfig })
    expect(backend.load()).toEqual({ maxConcurrent, queued: 0, running: 0 })
  })

  it('are released when the workflow ends, without waiting for the observer', async () => {
    const noted = Promise.withResolvers<undefined>()
    const finished = Promise.withResolvers<undefined>()
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('main')),
      grader: grader((ctx) => ctx.setReward(1)),
      maxConcurrent: 1,
    })
    const first = backend.execute(request({ rolloutId: 'slow' }), {
      workflowFinished: async () => {
        finished.resolve(undefined)
        await noted.promise
      },
      gradingFinished: async () => {},
    })
    await finished.promise
    expect(backend.load()).toEqual({ maxConcurrent: 1, queued: 0, running: 0 })
    expect(backend.status('slow').status).toBe('grading')
    expect((await run(backend, { rolloutId: 'next' })).grading?.status).toBe('success')
    noted.resolve(undefined)
    await first
    expect(backend.status('slow')).toEqual({ status: 'success', reward: 1, errorMessage: null })
  })

  it('of graders are limited by the grader config', async () => {
    let grading = 0
    let most = 0
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('main')),
      workflowConfig: defineWorkflowConfig({ name: 'w' }),
      grader: grader(async (ctx) => {
        grading += 1
        most = Math.max(most, grading)
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
        grading -= 1
        ctx.setReward(1)
      }),
      graderConfig: defineGraderConfig({ name: 'g', concurrency: { maxConcurrent: 2 } }),
    })
    await Promise.all(Array.from({ length: 10 }, (_, n) => run(backend, { rolloutId: `r${n}` })))
    expect(most).toBe(2)
  })

  it('and a bounded queue make a backend full', async () => {
    const gate = gated()
    const backend = new LocalBackend({
      workflow: gate.workflow,
      maxConcurrent: 1,
      maxQueueDepth: 1,
    })
    const capacity = [backend.hasCapacity()]
    const runs = ['a', 'b'].map((rolloutId) => {
      const promise = run(backend, { rolloutId, grade: false })
      capacity.push(backend.hasCapacity())
      return promise
    })
    expect(capacity).toEqual([true, true, false])
    gate.open('a')
    await runs[0]
    expect(backend.hasCapacity()).toBe(true)
    gate.open('b')
    await runs[1]
  })

  it.each([{ maxConcurrent: 0 }, { maxQueueDepth: 0 }, { maxConcurrent: 1.5 }])(
    'refuse %j',
    (options) => {
      expect(() => new LocalBackend({ workflow: workflow(() => {}), ...options })).toThrow(
        expect.objectContaining({ code: 'invalid_config' }),
      )
    },
  )
})

describe('cancelling', () => {
  it('ends queued and running rollouts, and reports which they were', async () => {
    const gate = gated()
    const backend = new LocalBackend({
      workflow: gate.workflow,
      grader: grader(() => expect.fail()),
      maxConcurrent: 1,
    })
    const running = run(backend, { rolloutId: 'a-1' })
    const queued = run(backend, { rolloutId: 'a-2' })
    const other = run(backend, { rolloutId: 'b-1' })

    expect(Object.fromEntries(backend.cancel({ ids: ['a-2', 'unknown'] }))).toEqual({
      'a-2': 'cancelled_queued',
      unknown: 'not_found',
    })
    expect((await queued).completion?.failure).toMatchObject({
      message: 'cancelled',
      category: 'agent_error',
    })
    expect((await queued).grading?.failure).toMatchObject({
      message: 'cancelled',
      category: 'agent_error',
    })
    expect(backend.status('a-2')).toEqual({
      status: 'cancelled',
      reward: null,
      errorMessage: 'cancelled',
    })

    expect(Object.fromEntries(backend.cancel({ prefix: 'a-' }))).toEqual({
      'a-1': 'cancelled_running',
    })
    await running
    expect(Object.fromEntries(backend.cancel({ all: true }))).toEqual({
      'b-1': 'cancelled_running',
    })
    await other
    expect(Object.fromEntries(backend.cancel({ ids: ['a-1'] }))).toEqual({ 'a-1': 'not_found' })
    expect(backend.load()).toEqual({ maxConcurrent: 1, queued: 0, running: 0 })
  })

  it('between the workflow and its grading fails only the grading', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('main')),
      grader: grader(() => expect.fail()),
    })
    const outcomes: unknown[] = []
    await backend.execute(request(), {
      workflowFinished: async ({ status }) => {
        outcomes.push(status)
        backend.cancel({ all: true })
      },
      gradingFinished: async ({ failure }) => {
        outcomes.push(failure?.message)
      },
    })
    expect(outcomes).toEqual(['success', 'cancelled'])
    expect(backend.status('r').status).toBe('cancelled')
  })

  it('uses the signal of each rollout when several have the same id', async () => {
    const gate = gated()
    const backend = new LocalBackend({ workflow: gate.workflow })
    const first = new AbortController()
    const outcomes: unknown[] = []
    const observer = (name: string): RolloutObserver => ({
      workflowFinished: async ({ failure }) => void outcomes.push([name, failure?.message]),
      gradingFinished: async () => {},
    })
    const ended = backend.execute(request({ grade: false }), observer('first'), first.signal)
    const stays = backend.execute(request({ grade: false }), observer('second'))
    first.abort(new OsmosisError('cancelled', 'no longer wanted'))
    await ended
    gate.open('r')
    await stays
    expect(outcomes).toEqual([
      ['first', 'no longer wanted'],
      ['second', undefined],
    ])
  })

  it('fails rollouts with the reason of a shutdown', async () => {
    const gate = gated()
    const backend = new LocalBackend({ workflow: gate.workflow })
    const running = run(backend)
    backend.shutdown()
    expect((await running).completion?.failure).toMatchObject({
      message: 'rollout server shut down',
      category: 'agent_error',
    })
  })
})

it('reports unknown for rollouts that it never received', () => {
  const backend = new LocalBackend({ workflow: workflow(() => {}) })
  expect(backend.status('x')).toEqual({ status: 'unknown', reward: null, errorMessage: null })
})
