import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  request,
  workflow,
} from '../../../../test/kit/executed-rollouts.ts'

async function eventsOf(backend: LocalBackend, grade: boolean): Promise<unknown[]> {
  const events: unknown[] = []
  await backend.execute(request({ grade }), {
    phaseChanged: (phase) => void events.push(phase),
    workflowFinished: async ({ status }, samples) => {
      events.push(`workflow ${status}`, [...(samples?.keys() ?? [])])
    },
    gradingFinished: async ({ status }) => void events.push(`grading ${status}`),
  })
  return events
}

const graded = grader((ctx) => ctx.setReward(1))

it('notifies the observer of each phase before its outcome, and of the samples before grading', async () => {
  const backend = new LocalBackend({
    workflow: workflow(() => registerSamples('a')),
    grader: graded,
  })

  expect(await eventsOf(backend, true)).toStrictEqual([
    'running',
    'grading',
    'workflow success',
    ['a'],
    'grading success',
  ])
})

it('does not report skipped phases', async () => {
  const succeeds = new LocalBackend({ workflow: workflow(() => registerSamples('a')) })
  const fails = new LocalBackend({
    workflow: workflow(() => {
      throw new Error('no')
    }),
    grader: graded,
  })

  expect(await eventsOf(succeeds, false)).toStrictEqual(['running', 'workflow success', ['a']])
  expect(await eventsOf(fails, true)).toStrictEqual([
    'running',
    'workflow failure',
    [],
    'grading failure',
  ])
})
