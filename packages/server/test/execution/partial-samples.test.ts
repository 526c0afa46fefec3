import {
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type RolloutSample,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { run, workflow, type ExecutedRollout } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const user = (content: string): ChatMessage => ({ role: 'user', content })
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content })

/** Sends the policy one question as `main`. */
async function ask(question: string): Promise<void> {
  await requireRolloutContext('ask')
    .policy('main')
    .complete({ messages: [user(question)] })
}

/** Runs a workflow whose policy answers only the first call. */
async function runFailing(
  body: (ctx: AgentWorkflowContext) => unknown,
  { agentTimeoutSeconds = null as number | null, cancelAtCall = 0 } = {},
): Promise<ExecutedRollout & { said: ReadonlyMap<string, RolloutSample> | undefined }> {
  const backend = new LocalBackend({ workflow: workflow(body) })
  const { url } = await startPolicyEndpoint((response, n) => {
    if (n === 1) sendStream(response, answerStream('a1'))
    if (n === cancelAtCall) backend.cancel({ all: true })
  })
  const reported = await run(backend, { chatCompletionsUrl: url, agentTimeoutSeconds })
  return { ...reported, said: await reported.completion?.partialSamples }
}

it('a workflow that exceeded its deadline reports the call that it waited for', async () => {
  const twoQuestions = async (): Promise<void> => {
    await ask('q1')
    await ask('q2')
  }
  // Longer than the first answer takes where the machine does other work.
  const { completion, said } = await runFailing(twoQuestions, { agentTimeoutSeconds: 3 })
  expect(completion?.failure?.category).toBe('timeout')
  expect(said?.get('main')).toMatchObject({
    trajectoryMessages: [user('q2')],
    extraFields: { other_conversations: [[user('q1'), assistant('a1')]] },
    calls: [{ error: null }, { error: expect.stringContaining('deadline'), answerIndex: null }],
  })
})

it('a cancelled workflow reports its messages, even when its code never ends', async () => {
  const stubborn = async (): Promise<void> => {
    await ask('q1')
    await ask('q2').catch(async () => new Promise(() => undefined))
  }
  const { completion, said } = await runFailing(stubborn, { cancelAtCall: 2 })
  expect(completion?.failure?.message).toBe('cancelled')
  expect(said?.get('main')?.calls.map(({ error }) => error)).toEqual([null, 'cancelled'])
})

it('a source that throws or never resolves loses only its own messages', async () => {
  const { completion, said } = await runFailing(async () => {
    const rollout = requireRolloutContext('test')
    rollout.registerSampleSource('main', { getSample: () => new Promise(() => undefined) })
    rollout.registerSampleSource('broken', {
      getSample: () => {
        throw new Error('no sample')
      },
    })
    rollout.registerSampleSource('never ran', {
      requiresModelCall: true,
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    await ask('q1')
    throw new Error('boom')
  })
  expect(completion?.failure?.message).toContain('boom')
  expect([...(said ?? [])].map(([id, sample]) => [id, sample.trajectoryMessages])).toEqual([
    ['main', [user('q1'), assistant('a1')]],
    ['broken', null],
  ])
})
