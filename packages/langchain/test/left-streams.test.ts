import { Grader, type GraderContext } from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { execute, rewardsOf } from '../../../test/kit/index.ts'

class RewardEverything extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

const words = Array.from({ length: 20_000 }, (_, index) => `word-${index}`).join(' ')
const longAnswer = fault.on(words, { chunkBytes: 4096 })
const model = new OsmosisChatModel('main')

async function leave(): Promise<void> {
  for await (const _ of await model.stream('go')) break
}

test('an answer whose reader leaves with break is stopped', async () => {
  await using server = await startPolicyServer(['first', longAnswer])
  const { workflow, grading } = await execute(
    server,
    async () => {
      await model.invoke('go')
      await leave()
    },
    { label: '', grader: RewardEverything },
  )
  expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  expect(await server.requests[1]?.closed).toBe(true)
  expect(rewardsOf(grading)).toEqual({ main: 1 })
})

test('a rollout that left the only answer of its policy earns nothing, and fails', async () => {
  await using server = await startPolicyServer([longAnswer])
  const { grading } = await execute(server, leave, { label: '', grader: RewardEverything })
  expect(grading?.failure).toMatchObject({
    message: expect.stringContaining('a stream was not read to its end'),
    cause: { code: 'no_samples' },
  })
  expect(server.requests).toHaveLength(1)
  expect(await server.requests[0]?.closed).toBe(true)
})

test('a rollout that returns while a stream is unread fails', async () => {
  await using server = await startPolicyServer(['first', longAnswer])
  const { workflow } = await execute(server, async () => {
    await model.invoke('go')
    await model.stream('go on')
  })
  expect(workflow.failure?.message).toMatch(/read streams to their end/)
  expect(await server.requests[1]?.closed).toBe(true)
})

test('a stream that breaks off fails the rollout, also when its error is swallowed', async () => {
  await using server = await startPolicyServer([
    fault.on('an answer of which half will arrive', { cutAfterBytes: 700 }),
  ])
  const { workflow } = await execute(server, async () => {
    const read = async (): Promise<void> => {
      for await (const _ of await model.stream('go'));
    }
    await read().catch(() => {})
  })
  expect(workflow).toMatchObject({ failure: { category: 'http_error' } })
})
