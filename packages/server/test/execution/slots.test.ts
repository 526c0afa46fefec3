import { type AgentWorkflow, defineWorkflowConfig, OsmosisError } from '@osmosis/core'
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
})

it('reports unknown for rollouts that it never received', () => {
  const backend = new LocalBackend({ workflow: workflow(() => {}) })
  expect(backend.status('x')).toEqual({ status: 'unknown', reward: null, errorMessage: null })
})
