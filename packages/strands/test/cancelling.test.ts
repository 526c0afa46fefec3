import { Grader, type GraderContext } from '@osmosis/core'
import { fault, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { callAdd, execute, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

describe.each(['headers', 'body'] as const)('while the policy is silent before its %s', (where) => {
  test('cancel() ends the call and retains the received text', async () => {
    await using server = await startPolicyServer([callAdd, fault.hang(where)])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent({ tools: [addTool()] })
      const running = agent.invoke('go')
      const hanging = await server.waitForRequest(1)
      agent.cancel()
      expect((await running).stopReason).toBe('cancelled')
      expect(await hanging.closed).toBe(true)
    })
    const { messages } = await sampleOf(rollout)
    // Early versions of Strands end a cancelled conversation with a note of their own.
    expect(kindsOf(messages).slice(0, 3)).toEqual([
      'user:text',
      'assistant:toolUse',
      'user:toolResult',
    ])
  })

  test('a signal of the user ends the call', async () => {
    await using server = await startPolicyServer([fault.hang(where)])
    await rolloutOn(server).run(async () => {
      const abort = new AbortController()
      const running = policyAgent().invoke('go', { cancelSignal: abort.signal })
      const hanging = await server.waitForRequest(0)
      abort.abort()
      expect((await running).stopReason).toBe('cancelled')
      expect(await hanging.closed).toBe(true)
    })
  })
})

describe('a stream that is left early', () => {
  test('ends the call that is in progress', async () => {
    await using server = await startPolicyServer([fault.hang('body')])
    await rolloutOn(server).run(async () => {
      for await (const event of policyAgent().stream('go')) {
        if (event.type === 'modelStreamUpdateEvent') break
      }
    })
    expect(await server.requests[0]?.closed).toBe(true)
  })

  test('leaves an agent that can be invoked again', async () => {
    await using server = await startPolicyServer([fault.hang('body'), 'done'])
    const rollout = rolloutOn(server)
    const result = await rollout.run(async () => {
      const agent = policyAgent()
      for await (const event of agent.stream('go')) {
        if (event.type === 'modelStreamUpdateEvent') break
      }
      return agent.invoke()
    })
    expect(result.toString()).toBe('done')
    expect(kindsOf((await sampleOf(rollout)).messages)).toEqual(['user:text', 'assistant:text'])
  })
})

test('a stream gives text as the policy writes it', async () => {
  await using server = await startPolicyServer(['a long answer of several words'])
  const heard: string[] = []
  await rolloutOn(server).run(async () => {
    for await (const event of policyAgent().stream('go')) {
      if (event.type !== 'modelStreamUpdateEvent') continue
      const { event: update } = event
      if (update.type !== 'modelContentBlockDeltaEvent') continue
      if (update.delta.type === 'textDelta') heard.push(update.delta.text)
    }
  })
  expect(heard.length).toBeGreaterThan(1)
  expect(heard.join('')).toBe('a long answer of several words')
})

test('a stream that is never read gives no sample, and the error names its agent', async () => {
  await using server = await startPolicyServer([])
  const { workflow, grading } = await execute(server, async () => void policyAgent().stream('go'), {
    label: '3',
    grader: RewardEverything,
  })
  const hint: unknown = expect.stringMatching(/"main".*`await`.*stream was not read to its end/)
  expect(workflow.warnings).toEqual([hint])
  expect(grading?.failure).toMatchObject({ message: hint, cause: { code: 'no_samples' } })
})

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}
