import { type GraderContext, Grader } from '@osmosis/core'
import type { ChatCompletionRequest } from '@osmosis/core/policy'
import type { ContractTool } from '@osmosis/testing'
import { expect } from 'vitest'

import { agentsUnderTest } from '../any-server/agents-under-test.ts'
import { execute } from '../kit/index.ts'
import { modelServerModel, RecordingProxy, withModelServer } from '../kit/model-server/index.ts'
import { saidByServer } from './said-by-server.ts'
import { sharedModelServer } from './shared-server.ts'

const { it } = withModelServer()

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

it.each(Object.entries(agentsUnderTest))(
  '%s calls a tool of a real server, and records what that said',
  async (_name, run) => {
    const ran: unknown[] = []
    const multiply: ContractTool = {
      name: 'multiply',
      description: 'Multiplies two numbers.',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
        additionalProperties: false,
      },
      execute(input) {
        ran.push(structuredClone(input))
        return '48'
      },
    }
    await using proxy = await new RecordingProxy((await sharedModelServer()).url).start()
    const prompt = 'Multiply 6 by 8.'
    const { workflow, grading } = await execute(
      proxy,
      async () => run({ name: 'main', prompt, tools: [multiply] }),
      { label: '48', grader: RewardEverything },
    )

    expect(workflow.failure ?? grading?.failure).toBeNull()
    expect(ran).toEqual([{ a: 6, b: 8 }])
    const sample = grading?.samples.get('main')
    expect(sample?.reward).toBe(1)
    const said = proxy.exchanges.map(saidByServer)
    expect(said.map(({ finishReason }) => finishReason)).toEqual(['tool_calls', 'stop'])
    const [first, second] = proxy.exchanges.map(
      ({ request }) => JSON.parse(request) as ChatCompletionRequest,
    )
    const { messages = [] } = second ?? {}
    const answers = said.map(({ content, toolCalls }) => ({
      role: 'assistant',
      content: content === '' && toolCalls.length > 0 ? null : content,
      ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    }))
    // The second request begins with the first one and its answer, so it is the whole conversation but for the last answer.
    expect(messages.at(-2)).toEqual(answers[0])
    expect(sample?.trajectoryMessages).toEqual([...messages, answers[1]])
    expect(messages.slice(0, -2)).toEqual(first?.messages)
    expect(sample?.calls).toMatchObject(
      said.map(({ id, model, finishReason, usage }, at) => ({
        id,
        model,
        finishReason,
        usage,
        attempts: 1,
        error: null,
        extendsPrevious: true,
        answerIndex: messages.length - 2 + 2 * at,
        // The server gives none unless it is asked.
        logprobs: null,
        promptTokenIds: null,
        completionTokenIds: null,
      })),
    )
    expect(said.map(({ model }) => model)).toEqual([modelServerModel, modelServerModel])
  },
)
