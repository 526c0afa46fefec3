import { Agent } from '@mastra/core/agent'
import { createScorer, type ScorerRunInputForAgent } from '@mastra/core/evals'
import { Grader, type GraderContext } from '@osmosis/core'
import { rolloutModel, scoreSample, toModelMessages, type SampleScorer } from '@osmosis/mastra'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it, vi } from 'vitest'

import { execute, rewardsOf } from '../../../test/kit/index.ts'
import { CalculatorGrader } from './examples/scored.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const question = { role: 'user' as const, content: 'What is 12 times 34?' }
const call = { toolCalls: [{ name: 'multiply', arguments: '{"a":12,"b":34}' }] }

it.each([
  ['right', 'It is 408.', 1],
  ['wrong', 'It is 400.', 0],
])('a scorer of Mastra rewards a %s answer', async (_verdict, answer, reward) => {
  await using server = await startPolicyServer([call, answer])
  const options = { prompt: [question], label: '408', grader: CalculatorGrader }
  const { grading } = await execute(server, CalculatorWorkflow, options)
  expect(rewardsOf(grading)).toEqual({ calculator: reward })
})

/** Grades with a scorer. */
function graderOf(scorer: SampleScorer) {
  return class extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      ctx.setReward(await scoreSample(scorer, ctx))
    }
  }
}

it('a scorer sees what Mastra shows scorers of an agent', async () => {
  let seen: { input?: ScorerRunInputForAgent; output?: unknown; groundTruth?: unknown } = {}
  const scorer = createScorer({ id: 'seen', description: 'Sees.', type: 'agent' }).generateScore(
    ({ run }) => {
      seen = run
      return 0.5
    },
  )
  await using server = await startPolicyServer([call, 'It is 408.'])
  const options = { prompt: [question], label: '408', grader: graderOf(scorer) }
  const { grading } = await execute(server, CalculatorWorkflow, options)
  expect(rewardsOf(grading)).toEqual({ calculator: 0.5 })
  expect(seen.groundTruth).toBe('408')
  expect(seen.input).toMatchObject({
    inputMessages: [
      { role: 'user', content: { parts: [{ type: 'text', text: question.content }] } },
    ],
    rememberedMessages: [],
    systemMessages: [
      { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
    ],
  })
  expect(seen.output).toMatchObject([
    {
      role: 'assistant',
      content: {
        parts: expect.arrayContaining([
          expect.objectContaining({
            type: 'tool-invocation',
            toolInvocation: expect.objectContaining({
              toolName: 'multiply',
              args: { a: 12, b: 34 },
              state: 'result',
            }),
          }),
          expect.objectContaining({ type: 'text', text: 'It is 408.' }),
        ]),
      },
    },
  ])
})

it('a score that is not a number is an error, and no reward', async () => {
  const scorer = { id: 'odd', run: async () => ({ score: Number.NaN }) }
  await using server = await startPolicyServer(['fine'])
  const options = { prompt: [question], label: '408', grader: graderOf(scorer) }
  const { grading } = await execute(server, CalculatorWorkflow, options)
  expect(grading).toMatchObject({
    status: 'failure',
    failure: { message: expect.stringMatching(/"odd" must give sample "calculator" .*got NaN/) },
  })
})

it('a scorer that fails fails the grading', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  const scorer = createScorer({ id: 'fails', description: 'Fails.' }).generateScore(() => {
    throw new Error('out of ideas')
  })
  await using server = await startPolicyServer(['fine'])
  const options = { prompt: [question], label: '408', grader: graderOf(scorer) }
  const { grading } = await execute(server, CalculatorWorkflow, options)
  expect(grading).toMatchObject({
    status: 'failure',
    failure: { message: expect.stringContaining('out of ideas') },
  })
})

it('one of several samples is scored by naming it', async () => {
  const length = createScorer({
    id: 'length',
    description: 'Counts.',
    type: 'agent',
  }).generateScore(({ run }) => run.output.length)
  class BothGrader extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      for (const [id, sample] of ctx.samples) {
        ctx.setSampleReward(id, await scoreSample(length, ctx, sample))
      }
    }
  }
  const agents = ['writer', 'critic'].map(
    (name) => new Agent({ id: name, name, instructions: '', model: rolloutModel(name) }),
  )
  await using server = await startPolicyServer(() => 'fine')
  const { grading } = await execute(
    server,
    async (ctx) => {
      for (const agent of agents) await agent.generate(toModelMessages(ctx.prompt))
    },
    { prompt: [question], label: '408', grader: BothGrader },
  )
  expect(rewardsOf(grading)).toEqual({ writer: 1, critic: 1 })
})
