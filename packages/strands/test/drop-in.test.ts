import { OsmosisStrandsAgent } from '@osmosis/strands'
import { startPolicyServer } from '@osmosis/testing'
import {
  Agent,
  type AgentResult,
  type AgentStreamEvent,
  type BaseModelConfig,
  type Message,
  Model,
  type ModelStreamEvent,
} from '@strands-agents/sdk'
import { describe, expect, onTestFinished, test, vi } from 'vitest'

import { callAdd, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, policyAgent } from './rollout.ts'

/** A model of the user's own: one tool call, then a text. */
class OwnModel extends Model {
  readonly received: Message[][] = []

  override updateConfig(): void {}

  override getConfig(): BaseModelConfig {
    return { modelId: 'own' }
  }

  override async *stream(messages: Message[]): AsyncGenerator<ModelStreamEvent> {
    this.received.push(messages)
    const answersTool = messages.at(-1)?.content[0]?.type === 'toolResultBlock'
    yield { type: 'modelMessageStartEvent', role: 'assistant' }
    if (answersTool) {
      yield { type: 'modelContentBlockStartEvent' }
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'textDelta', text: 'done' } }
    } else {
      const start = { type: 'toolUseStart', name: 'add', toolUseId: 'call-1' } as const
      yield { type: 'modelContentBlockStartEvent', start }
      const delta = { type: 'toolUseInputDelta', input: '{"a":1,"b":2}' } as const
      yield { type: 'modelContentBlockDeltaEvent', delta }
    }
    yield { type: 'modelContentBlockStopEvent' }
    yield { type: 'modelMessageStopEvent', stopReason: answersTool ? 'endTurn' : 'toolUse' }
  }
}

function captureStdout(): string[] {
  const printed: string[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed.push(String(text))
    return true
  })
  onTestFinished(() => {
    vi.restoreAllMocks()
  })
  return printed
}

async function eventsOf(agent: Agent): Promise<{ types: string[]; result: unknown }> {
  const types: string[] = []
  const stream = agent.stream('go')
  let next: IteratorResult<AgentStreamEvent, AgentResult> = await stream.next()
  for (; !next.done; next = await stream.next()) types.push(next.value.type)
  return { types, result: next.value.toJSON() }
}

describe.each(['inside a rollout', 'outside of rollouts'])(
  'with a model of its own, %s',
  (where) => {
    const nowhere = { url: 'http://policy.invalid' }
    function there<T>(body: () => T, rollout = rolloutOn(nowhere)): T {
      return where === 'inside a rollout' ? rollout.run(body) : body()
    }

    test('it behaves like an Agent', async () => {
      const printed = captureStdout()
      const outcomes = await there(async () => {
        const made = [Agent, OsmosisStrandsAgent].map(
          (Class) => new Class({ model: new OwnModel(), tools: [addTool()], systemPrompt: 'Be.' }),
        )
        const seen: unknown[] = []
        for (const agent of made) {
          printed.length = 0
          const { types, result } = await eventsOf(agent)
          const messages = agent.messages.map(({ role, content }) => ({ role, content }))
          seen.push({ types, result, messages, name: agent.name, printed: printed.join('') })
        }
        return seen
      })
      const [plain, ours] = outcomes as [{ printed: string; types: string[] }, unknown]
      expect(plain.types.length).toBeGreaterThan(10)
      expect(plain.printed).toContain('done')
      expect(withoutTimes(ours)).toEqual(withoutTimes(plain))
    })

    test('it is not a sample, and accepts a prompt unchanged', async () => {
      const model = new OwnModel()
      const rollout = rolloutOn(nowhere)
      const agent = await there(async () => {
        const made = new OsmosisStrandsAgent({
          name: 'own',
          model,
          tools: [addTool()],
          printer: false,
          messages: [
            { role: 'system', content: 'Be exact.' },
            { role: 'user', content: 'go' },
          ],
        })
        await made.invoke()
        return made
      }, rollout)
      expect(agent.sampleId).toBeUndefined()
      expect(agent.systemPrompt).toBe('Be exact.')
      expect(model.received[0]?.map(({ role, content }) => ({ role, content }))).toMatchObject([
        { role: 'user', content: [{ text: 'go' }] },
      ])
      expect([...(await rollout.getSamples()).keys()]).toEqual([])
    })
  },
)

/** Durations and ids differ from run to run. */
function withoutTimes(value: unknown): unknown {
  const text = JSON.stringify(value, (key, field: unknown) =>
    /trac|metrics|cycle|time|duration|latency/i.test(key) ? undefined : field,
  )
  return JSON.parse(text)
}

describe('with the policy', () => {
  test('it prints nothing by default', async () => {
    const printed = captureStdout()
    await using server = await startPolicyServer(() => 'hi there')
    const texts = await rolloutOn(server).run(async () => {
      await policyAgent({ name: 'quiet' }).invoke('go')
      const before = printed.join('')
      await policyAgent({ name: 'loud', printer: true }).invoke('go')
      return [before, printed.join('')]
    })
    expect(texts[0]).toBe('')
    expect(texts[1]).toContain('hi there')
  })

  test('it leaves the history to a context manager that the user chose', async () => {
    await using server = await startPolicyServer(['hi'])
    const rollout = rolloutOn(server)
    // Strands warns when it gets two managers, and when it does not know the size of the window.
    await rollout.run(async () => {
      const agent = policyAgent({ contextManager: 'auto' })
      agent.model.updateConfig({ contextWindowLimit: 32_768 })
      await agent.invoke('go')
    })
    expect((await sampleOf(rollout)).messages).toHaveLength(2)
  })

  test('it runs the plugins of the user', async () => {
    await using server = await startPolicyServer(['hi'])
    const plugin = { name: 'mine', initAgent: vi.fn<(agent: unknown) => void>() }
    await rolloutOn(server).run(async () => {
      const agent = policyAgent({ plugins: [plugin] })
      await agent.invoke('go')
      expect(plugin.initAgent.mock.calls).toEqual([[agent]])
    })
  })

  test('it resumes after a limit of turns', async () => {
    await using server = await startPolicyServer([callAdd, 'It is 3.'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent({ tools: [addTool()] })
      const first = await agent.invoke('go', { limits: { turns: 1 } })
      expect([first.stopReason, first.lastMessage.role]).toEqual(['limitTurns', 'user'])
      expect((await agent.invoke()).toString()).toBe('It is 3.')
    })
    expect((await sampleOf(rollout)).extraFields).toEqual({})
  })

  test('it continues from a conversation that ends with the assistant', async () => {
    await using server = await startPolicyServer(['…and on'])
    await rolloutOn(server).run(async () => {
      const messages = [
        { role: 'user', content: 'go' },
        { role: 'assistant', content: 'It goes' },
      ]
      await policyAgent({ messages }).invoke()
    })
    expect(server.requests[0]?.body['messages']).toEqual([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: 'It goes' },
    ])
  })

  test('it counts tokens', async () => {
    const usage = { promptTokens: 11, completionTokens: 7 }
    await using server = await startPolicyServer([{ content: 'hi', usage }])
    const result = await rolloutOn(server).run(async () => policyAgent().invoke('go'))
    expect(result.metrics?.accumulatedUsage).toMatchObject({
      inputTokens: 11,
      outputTokens: 7,
      totalTokens: 18,
    })
  })
})
