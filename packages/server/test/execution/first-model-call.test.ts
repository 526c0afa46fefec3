import { getRolloutContext, requireRolloutContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

it('opens the first gate as well when user code reads the URL of the policy to call it itself', async () => {
  let notified = 0
  const backend = new LocalBackend({
    workflow: workflow(() => expect(getRolloutContext()?.chatCompletionsUrl).toMatch(/^http/)),
  })
  await run(backend, { grade: false }, { beforeFirstModelCall: async () => void (notified += 1) })
  expect(notified).toBe(1)
})

it('announces each model call before it is sent, and its end when the answer has been read', async () => {
  const events: string[] = []
  const policy = await startPolicyEndpoint((response) => {
    events.push('model call')
    sendStream(response, answerStream('4'))
  })
  const backend = new LocalBackend({
    workflow: workflow(async () => {
      const main = requireRolloutContext('test').policy('main')
      await main.complete({ messages: [] })
      for await (const _ of main.stream({ messages: [] })) break
    }),
  })
  await run(
    backend,
    { chatCompletionsUrl: policy.url, grade: false },
    {
      beforeFirstModelCall: async () => void events.push('first call'),
      modelCallBegins: async ({ endpoint }) => {
        expect(endpoint).toBe(`${policy.url}/chat/completions`)
        events.push('begins')
        return () => void events.push('ended')
      },
    },
  )
  expect(events.join(', ')).toBe('begins, first call, model call, ended, begins, model call, ended')
})

it('announces the end of a failed model call, and does not send one whose announcement was rejected', async () => {
  let ended = 0
  const policy = await startPolicyEndpoint((response) => response.writeHead(400).end())
  const errors: string[] = []
  const backend = new LocalBackend({
    workflow: workflow(async () => {
      const main = requireRolloutContext('test').policy('main')
      for (let call = 0; call < 2; call += 1) {
        await main.complete({ messages: [] }).catch((error: Error) => errors.push(error.message))
      }
    }),
  })
  await run(
    backend,
    { chatCompletionsUrl: policy.url, grade: false },
    {
      modelCallBegins: async () => {
        if (errors.length === 1) throw new Error('no room')
        return () => void (ended += 1)
      },
    },
  )
  expect(errors).toEqual([expect.stringContaining('400'), 'no room'])
  expect(ended).toBe(1)
  expect(policy.requests).toHaveLength(1)
})
