import {
  Agent,
  defineToolInputGuardrail,
  type InputGuardrail,
  MaxTurnsExceededError,
  ModelBehaviorError,
  type OutputGuardrail,
  OpenAIProvider,
  run,
  tool,
} from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { blame, callAdd, isNewestVersion } from '../../../test/kit/index.ts'

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => `sum: ${a + b}`,
})

type Config = Partial<ConstructorParameters<typeof OsmosisAgent>[0]>

const runOf =
  (config: Config, options: { maxTurns?: number; stream?: boolean } = {}) =>
  async () => {
    const agent = new OsmosisAgent({ name: 'main', model: new OsmosisRolloutModel(), ...config })
    const session = new OsmosisMemorySession({ name: 'main' })
    const result: unknown = await run(agent, 'go', { session, ...options } as object)
    await (result as { completed?: Promise<void> }).completed
  }

const trips = async () => ({ tripwireTriggered: true, outputInfo: {} })
const outputGuardrail: OutputGuardrail = { name: 'polite', execute: trips }
const inputGuardrail: InputGuardrail = { name: 'allowed', execute: trips }

describe('the policy is blamed for', () => {
  it.each([false, true])('what an output guardrail finds, with streams: %s', async (stream) => {
    const guarded = runOf({ outputGuardrails: [outputGuardrail] }, { stream })
    expect(await blame(['rude'], guarded)).toBe('model_error: output')
  })

  it('what a guardrail on the input of a tool finds', async () => {
    const guarded = tool({
      name: 'add',
      description: 'Adds.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: async () => 'never',
      inputGuardrails: [
        defineToolInputGuardrail({
          name: 'small',
          run: async () => ({ behavior: { type: 'throwException' as const } }),
        }),
      ],
    })
    expect(await blame([callAdd, 'done'], runOf({ tools: [guarded] }))).toBe(
      'model_error: tool_call',
    )
  })

  it.each([false, true])('too many turns, with streams: %s', async (stream) => {
    const limited = runOf({ tools: [add] }, { maxTurns: 1, stream })
    expect(await blame(() => callAdd, limited)).toBe('limit_reached: max_turns')
  })
})

// Older versions do not count the first turn after an approval.
it.runIf(isNewestVersion())(
  'the policy is blamed for too many turns of a run that continues after an approval',
  async () => {
    const asking = tool({
      name: 'add',
      description: 'Adds.',
      parameters: z.object({}),
      needsApproval: true,
      execute: async () => '3',
    })
    const continued = async (): Promise<void> => {
      const agent = new OsmosisAgent({
        name: 'main',
        model: new OsmosisRolloutModel(),
        tools: [asking],
      })
      const options = { session: new OsmosisMemorySession({ name: 'main' }), maxTurns: 1 }
      const { state, interruptions } = await run(agent, 'go', options)
      for (const item of interruptions) state.approve(item)
      await run(agent, state, options)
    }
    expect(await blame([callAdd], continued)).toBe('limit_reached: max_turns')
  },
)

describe('the policy is not blamed for', () => {
  it('what an input guardrail finds, also while the policy answers', async () => {
    for (const runInParallel of [true, false]) {
      const guarded = runOf({ inputGuardrails: [{ ...inputGuardrail, runInParallel }] })
      expect(await blame(['good'], guarded)).toBe('failure')
    }
  })

  it('a judge that reaches its limit in a tool of the policy', async () => {
    await using provider = await startPolicyServer(() => callAdd)
    const models = new OpenAIProvider({ baseURL: provider.url, apiKey: 'key', useResponses: false })
    const model = await models.getModel('gpt-4.1')
    const judging = tool({
      name: 'add',
      description: 'Asks a judge.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      errorFunction: null,
      execute: async () =>
        run(new Agent({ name: 'judge', model, tools: [add] }), 'judge', { maxTurns: 1 }),
    })
    expect(await blame([callAdd, 'done'], runOf({ tools: [judging] }))).toBe('failure')
  })

  it.each([
    ['a judge at its own limit', () => callAdd, { tools: [add] }],
    ['a guardrail of a judge', ['rude'], { outputGuardrails: [outputGuardrail] }],
    ['a wrong output of a judge', ['no JSON'], { outputType: z.object({ sum: z.number() }) }],
  ])('%s', async (_what, replies, config) => {
    await using provider = await startPolicyServer(replies)
    const models = new OpenAIProvider({
      baseURL: provider.url,
      apiKey: 'key',
      useResponses: false,
    })
    const model = await models.getModel('gpt-4.1')
    const judged = async () => {
      await runOf({})()
      await run(new Agent({ name: 'judge', model, ...(config as object) }), 'judge', {
        maxTurns: 1,
      })
    }
    expect(await blame(['good'], judged)).toBe('failure')
  })

  it('errors that the program makes, whatever their class', async () => {
    class MaxTurns extends Error {
      override name = 'MaxTurnsExceededError'
    }
    for (const thrown of [
      new MaxTurns('x'),
      new MaxTurnsExceededError('x'),
      new ModelBehaviorError('x'),
    ]) {
      const thrower = async () => {
        await runOf({})()
        throw new Error('wrapped', { cause: thrown })
      }
      expect(await blame(['good'], thrower)).toBe('failure')
    }
  })
})
