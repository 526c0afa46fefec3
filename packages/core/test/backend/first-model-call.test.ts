import {
  getRolloutContext,
  LocalBackend,
  requireRolloutContext,
  type RolloutObserver,
} from '@osmosis/core'
import { answerStream, sendStream, startPolicyEndpoint } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { request, workflow } from '../rollouts.ts'

const silent: RolloutObserver = {
  workflowFinished: async () => {},
  gradingFinished: async () => {},
}

it('an observer is waited for once, before the first model call leaves', async () => {
  const events: string[] = []
  const policy = await startPolicyEndpoint((response) => {
    events.push('model call')
    sendStream(response, answerStream('4'))
  })
  const waited = Promise.withResolvers<undefined>()
  const begun = Promise.withResolvers<undefined>()
  const backend = new LocalBackend({
    workflow: workflow(async () => {
      const rollout = requireRolloutContext('test')
      const both = ['a', 'b'].map(async (id) => rollout.policy(id).complete({ messages: [] }))
      await Promise.all(both)
      await rollout.policy('a').complete({ messages: [] })
    }),
  })
  const executed = backend.execute(request({ chatCompletionsUrl: policy.url, grade: false }), {
    ...silent,
    beforeFirstModelCall: async () => {
      begun.resolve(undefined)
      await waited.promise
      events.push('waited for')
    },
  })
  await begun.promise
  events.push('asked')
  waited.resolve(undefined)
  await executed
  expect(events).toEqual(['asked', 'waited for', 'model call', 'model call', 'model call'])
})

it('whoever reads where the policy is may ask it in a way of his own, which counts as well', async () => {
  let told = 0
  const backend = new LocalBackend({
    workflow: workflow(() => expect(getRolloutContext()?.chatCompletionsUrl).toMatch(/^http/)),
  })
  await backend.execute(request({ grade: false }), {
    ...silent,
    beforeFirstModelCall: async () => void (told += 1),
  })
  expect(told).toBe(1)
})

it('a rollout whose observer cannot take note makes no model call', async () => {
  const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('4')))
  const backend = new LocalBackend({
    workflow: workflow(async () => {
      await requireRolloutContext('test').policy('main').complete({ messages: [] })
    }),
  })
  const failed = Promise.withResolvers<string | undefined>()
  await backend.execute(request({ chatCompletionsUrl: policy.url, grade: false }), {
    ...silent,
    workflowFinished: async ({ failure }) => failed.resolve(failure?.message),
    beforeFirstModelCall: async () => {
      throw new Error('no note can be taken')
    },
  })
  expect(await failed.promise).toBe('no note can be taken')
  expect(policy.requests).toHaveLength(0)
})
