import { AgentWorkflow, requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  run,
  type ExecutedRollout,
} from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const question = { role: 'user', content: 'What is 2 + 2?' }
const answer = { role: 'assistant', content: '4' }

/** A rollout of a workflow whose `run` is this function. */
async function rolloutOf(
  body: (ctx: AgentWorkflowContext) => unknown,
  overrides: Parameters<typeof run>[1] = {},
): Promise<ExecutedRollout> {
  class Returning extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<unknown> {
      return body(ctx)
    }
  }
  const rewardAll = grader((ctx) => {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  })
  return run(new LocalBackend({ workflow: Returning, grader: rewardAll }), overrides)
}

describe('the value that run() returns', () => {
  it('is the only sample of the rollout when it is a list of chat messages', async () => {
    const { completion, grading } = await rolloutOf(() => [question, answer])
    expect([completion?.status, grading?.status]).toEqual(['success', 'success'])
    expect([...(grading?.samples ?? [])]).toMatchObject([
      [
        'sample',
        { id: 'sample', messages: [question, answer], label: '4', reward: 1, metrics: {} },
      ],
    ])
  })

  it('may have metrics beside the messages', async () => {
    const { grading } = await rolloutOf(() => ({ messages: [answer], metrics: { turns: 3 } }))
    expect(grading?.samples.get('sample')).toMatchObject({
      messages: [answer],
      metrics: { turns: 3 },
    })
  })

  it('may have messages in the form of a framework, when nothing is registered', async () => {
    const { grading } = await rolloutOf(() => ({ messages: [{ type: 'ai', content: '4' }] }))
    expect(grading?.samples.get('sample')?.messages).toEqual([{ type: 'ai', content: '4' }])
  })

  it('has the model calls that were made under its sample id', async () => {
    const endpoint = await startPolicyEndpoint((response) =>
      sendStream(response, answerStream('4')),
    )
    const { completion, grading } = await rolloutOf(
      async ({ prompt }) => {
        const policy = requireRolloutContext('the test').policy('sample')
        const { choices } = await policy.complete({ messages: [...prompt] })
        return [...prompt, choices[0]?.message]
      },
      { chatCompletionsUrl: endpoint.url },
    )
    expect(completion?.warnings).toEqual([])
    expect(grading?.samples.get('sample')?.calls).toHaveLength(1)
  })

  it.each([
    ['a metric that is not a number', { turns: Number.NaN }],
    ['a metric that is text', { turns: '3' }],
  ])('fails the rollout with %s', async (_name, metrics) => {
    const { completion } = await rolloutOf(() => ({ messages: [answer], metrics }))
    expect(completion).toMatchObject({
      status: 'failure',
      failure: {
        category: 'validation_error',
        message: 'The metric "turns" that run() returned must be a finite number.',
      },
    })
  })

  it('cannot be messages when a sample is registered as well', async () => {
    const { completion } = await rolloutOf(() => {
      registerSamples('agent')
      return { messages: [answer] }
    })
    expect(completion).toMatchObject({
      status: 'failure',
      failure: {
        category: 'validation_error',
        message:
          'run() returned messages and also registered "agent": a sample is either returned or registered. Agents and sessions of an adapter register themselves, so return nothing with them.',
      },
    })
  })

  class Human {
    type = 'human'
    content = 'What is 2 + 2?'
  }
  class FrameworkResult {
    messages = [answer]
  }
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['text', 'done'],
    ['an empty list', []],
    ['a list of anything else', [{ type: 'function_call' }, answer]],
    ['a result of a framework', new FrameworkResult()],
    ['an object that has more than messages and metrics', { messages: [answer], steps: [] }],
    ['messages that are not a list', { messages: 'done' }],
    [
      'the state of an agent, with messages in the form of its framework',
      { messages: [new Human()] },
    ],
  ])('is ignored when it is %s', async (_name, returned) => {
    const { completion, grading } = await rolloutOf(() => {
      registerSamples('agent')
      return returned
    })
    expect([completion?.status, [...(grading?.samples.keys() ?? [])]]).toEqual([
      'success',
      ['agent'],
    ])
  })
})
