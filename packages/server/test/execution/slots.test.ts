import { type AgentWorkflow, defineWorkflowConfig, OsmosisError } from '@osmosis/core'
import { reportOf } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
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

  it('are released when the workflow ends, without waiting for the reader', async () => {
    const noted = Promise.withResolvers<undefined>()
    const finished = Promise.withResolvers<undefined>()
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('main')),
      grader: grader((ctx) => ctx.setReward(1)),
      maxConcurrent: 1,
    })
    const first = reportOf(backend.execute(request({ rolloutId: 'slow' })), async ({ type }) => {
      if (type !== 'workflow') return
      finished.resolve(undefined)
      await noted.promise
    })
    await finished.promise
    expect(backend.load()).toEqual({ maxConcurrent: 1, queued: 0, running: 0 })
    expect(backend.status('slow').status).toBe('grading')
    expect((await run(backend, { rolloutId: 'next' })).grading?.status).toBe('success')
    noted.resolve(undefined)
    await first
    expect(backend.status('slow')).toEqual({ status: 'success', reward: 1, errorMessage: null })
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

  it.each([
    [
      { maxConcurrent: 0 },
      "maxConcurrent must be a whole number of at least 1, got 0. Leave it out for the limit of the workflow's config, or for 4 without a config.",
    ],
    [
      { maxQueueDepth: 1.5 },
      'maxQueueDepth must be a whole number of at least 1, got 1.5. Leave it out for no limit.',
    ],
    [
      { workflowConfig: { name: 'search', concurrency: { maxConcurrent: 0 } } },
      'concurrency.maxConcurrent of "search" must be a whole number of at least 1, got 0. Leave it out for no limit.',
    ],
  ])('refuse %j', (options, message) => {
    expect(() => new LocalBackend({ workflow: workflow(() => {}), ...options })).toThrow(
      expect.objectContaining({ code: 'invalid_config', message }),
    )
  })
})

describe('cancelling', () => {
  it('uses the signal of each rollout when several have the same id', async () => {
    const gate = gated()
    const backend = new LocalBackend({ workflow: gate.workflow })
    const first = new AbortController()
    const ungraded = request({ grade: false })
    const ended = reportOf(backend.execute(ungraded, {}, first.signal))
    const stays = reportOf(backend.execute(ungraded))
    first.abort(new OsmosisError('cancelled', 'no longer wanted'))
    expect((await ended).workflow.failure?.message).toBe('no longer wanted')
    gate.open('r')
    expect((await stays).workflow.failure).toBeNull()
  })
})

it('user code begins when the reader has seen that and asks for what follows', async () => {
  const seen: string[] = []
  const backend = new LocalBackend({
    workflow: workflow(() => {
      registerSamples('main')
      seen.push('user code')
    }),
  })
  await reportOf(backend.execute(request({ grade: false })), async ({ type }) => {
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    seen.push(type)
  })
  expect(seen).toEqual(['started', 'user code', 'workflow'])
})

describe('a reader that stops early', () => {
  it.each(['started', 'workflow'])('after %s cancels the rollout', async (last) => {
    const signals: AbortSignal[] = []
    const backend = new LocalBackend({
      workflow: workflow(async ({ signal }) => {
        registerSamples('main')
        signals.push(signal)
        if (last === 'started') await new Promise(() => {})
      }),
      grader: grader((ctx) => ctx.setReward(1)),
    })
    for await (const { type } of backend.execute(request())) if (type === last) break
    expect(backend.status('r').status).toBe('cancelled')
    expect(backend.load()).toMatchObject({ queued: 0, running: 0 })
    expect(signals.every(({ aborted }) => aborted)).toBe(true)
  })
})

it('reports unknown for rollouts that it never received', () => {
  const backend = new LocalBackend({ workflow: workflow(() => {}) })
  expect(backend.status('x')).toEqual({ status: 'unknown', reward: null, errorMessage: null })
})
