import { startPolicyServer } from '@osmosis/testing'
import {
  Agent,
  type AgentConfig,
  Model,
  type ModelStreamEvent,
  type StopReason,
  tool,
} from '@strands-agents/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { callAdd, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

/** A model of the user's own: calls `add` first, then says "done". */
class PlainModel extends Model {
  #calls = 0

  override getConfig(): object {
    return {}
  }

  override updateConfig(): void {}

  override async *stream(): AsyncGenerator<ModelStreamEvent> {
    yield { type: 'modelMessageStartEvent', role: 'assistant' }
    let stopReason: StopReason = 'endTurn'
    if (this.#calls++ === 0) {
      stopReason = 'toolUse'
      const start = { type: 'toolUseStart', name: 'add', toolUseId: 'call-1' } as const
      yield { type: 'modelContentBlockStartEvent', start }
      yield {
        type: 'modelContentBlockDeltaEvent',
        delta: { type: 'toolUseInputDelta', input: '{"a":1,"b":2}' },
      }
    } else {
      yield { type: 'modelContentBlockStartEvent' }
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'textDelta', text: 'done' } }
    }
    yield { type: 'modelContentBlockStopEvent' }
    yield { type: 'modelMessageStopEvent', stopReason }
  }
}

/** Runs `use` with an agent of Strands and with ours, whose sample comes back too. */
async function withBoth<T>(
  config: () => Pick<AgentConfig, 'tools'>,
  use: (agent: Agent) => Promise<T>,
): Promise<{ plain: T; ours: T; sampleKinds: string[] }> {
  const plain = await use(new Agent({ model: new PlainModel(), printer: false, ...config() }))
  await using server = await startPolicyServer([callAdd, 'done'])
  const rollout = rolloutOn(server)
  const ours = await rollout.run(async () => use(policyAgent(config())))
  const { messages } = await sampleOf(rollout)
  return { plain, ours, sampleKinds: kindsOf(messages) }
}

test.each(['invoke', 'stream'] as const)(
  'a cancel signal that a tool has stored is not aborted by the success of %s',
  async (way) => {
    let stored: AbortSignal | undefined
    const keepSignal = (): Pick<AgentConfig, 'tools'> => ({
      tools: [
        tool({
          name: 'add',
          description: 'Adds two numbers.',
          inputSchema: z.looseObject({}),
          callback: (_input, context) => {
            stored = context?.agent.cancelSignal
            return 'sum: 3'
          },
        }),
      ],
    })
    const { plain, ours } = await withBoth(keepSignal, async (agent) => {
      if (way === 'invoke') await agent.invoke('go')
      else for await (const event of agent.stream('go')) void event
      return stored?.aborted
    })
    expect(plain).toBe(false)
    expect(ours).toBe(false)
  },
)

async function cancelDuringTools(agent: Agent): Promise<string[]> {
  for await (const event of agent.stream('go')) {
    if (event.type !== 'beforeToolCallEvent') continue
    agent.cancel()
    break
  }
  return kindsOf(agent.messages.map((message) => message.toJSON()))
}

test('a turn that was cancelled at its tools comes before the note of Strands', async () => {
  const { plain, ours, sampleKinds } = await withBoth(
    () => ({ tools: [addTool()] }),
    cancelDuringTools,
  )
  expect(plain).toEqual(['user:text', 'assistant:text'])
  expect(ours).toEqual(plain)
  expect(sampleKinds).toEqual(['user:text', 'assistant:toolUse', 'assistant:text'])
})

test('a turn that was cancelled at its tools remains recorded when the agent continues', async () => {
  const { plain, ours, sampleKinds } = await withBoth(
    () => ({ tools: [addTool()] }),
    async (agent) => {
      await cancelDuringTools(agent)
      await agent.invoke('again')
      return kindsOf(agent.messages.map((message) => message.toJSON()))
    },
  )
  expect(plain).toEqual(['user:text', 'assistant:text', 'user:text', 'assistant:text'])
  expect(ours).toEqual(plain)
  expect(sampleKinds).toEqual([
    'user:text',
    'assistant:toolUse',
    'assistant:text',
    'user:text',
    'assistant:text',
  ])
})
