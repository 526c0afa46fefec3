import { AsyncLocalStorage } from 'node:async_hooks'

import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { startPolicyServer } from '@osmosis/testing'
import { generateText, ToolLoopAgent } from 'ai'
import { MockLanguageModelV4, simulateReadableStream } from 'ai/test'
import { describe, expect, test } from 'vitest'

import { callAdd, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'
import { firstText, tools } from './rollout.ts'

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}
const finishReason = { unified: 'stop', raw: 'stop' } as const

// A query makes the loader run the module a second time, as a second installed copy would.
const secondCopy = '../src/rollout-model.ts?copy'

/** A model like that of a provider. */
function production(): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    provider: 'production',
    modelId: 'large',
    doGenerate: {
      content: [{ type: 'text', text: 'from production' }],
      finishReason,
      usage,
      warnings: [],
    },
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: 'stream-start', warnings: [] },
          { type: 'text-start', id: '1' },
          { type: 'text-delta', id: '1', delta: 'from production' },
          { type: 'text-end', id: '1' },
          { type: 'finish', finishReason, usage },
        ],
      }),
    }),
  })
}

describe('outside of rollouts', () => {
  test('an OsmosisToolLoopAgent is not made without a fallback', () => {
    expect(() => new OsmosisToolLoopAgent({ model: rolloutModel() })).toThrow(
      expect.objectContaining({ code: 'no_rollout_context' }),
    )
  })
})

describe('one object for many rollouts', () => {
  const rollouts = Array.from({ length: 20 }, (_, index) => `rollout-${index}`)
  const fallback = production()

  test.each([
    ['a ToolLoopAgent', new ToolLoopAgent({ model: rolloutModel('main'), tools })],
    [
      'an OsmosisToolLoopAgent',
      new OsmosisToolLoopAgent({ id: 'main', model: rolloutModel({ fallback }), tools }),
    ],
  ])(`%s at the top of a file finds each of ${rollouts.length} rollouts`, async (_what, agent) => {
    await using server = await startPolicyServer((request) =>
      messagesOf(request).length > 1 ? firstText(request) : callAdd,
    )
    const texts = await Promise.all(
      rollouts.map(async (id) =>
        rolloutOn(server, id).run(async () => (await agent.generate({ prompt: id })).text),
      ),
    )
    expect(texts).toEqual(rollouts)
    for (const request of server.requests) {
      expect(request.headers['x-rollout-id']).toBe(firstText(request))
      expect(request.headers['x-sample-id']).toBe('main')
    }
    expect(fallback.doGenerateCalls).toEqual([])
  })
})

test('a stream belongs to the rollout it was started in, wherever it is read', async () => {
  await using server = await startPolicyServer([callAdd, 'done', callAdd, 'done'])
  const agent = new ToolLoopAgent({ model: rolloutModel('main'), tools })
  const first = rolloutOn(server, 'first')
  const outside = await first.run(async () => agent.stream({ prompt: 'go' }))
  expect(await outside.text).toBe('done')

  const inside = await rolloutOn(server, 'second').run(async () => agent.stream({ prompt: 'go' }))
  await new AsyncLocalStorage<string>().run('other', async () =>
    rolloutOn(server, 'third').run(async () => inside.consumeStream()),
  )
  expect(server.requests.map(({ headers }) => headers['x-rollout-id'])).toEqual([
    'first',
    'first',
    'second',
    'second',
  ])
})

test('a model that lost its async context belongs to the rollout it was made in', async () => {
  await using server = await startPolicyServer(['done'])
  const model = rolloutOn(server).run(() => rolloutModel('main'))
  expect((await generateText({ model, prompt: 'go' })).text).toBe('done')
  expect(sampleIds(server)).toEqual(['main'])
})

describe('names', () => {
  test('models of one name are one sample, models without a name one sample each', async () => {
    await using server = await startPolicyServer(() => 'done')
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      await generateText({ model: rolloutModel('main'), prompt: 'one' })
      await generateText({ model: rolloutModel({ name: 'main', seed: 1 }), prompt: 'two' })
      const unnamed = rolloutModel()
      await generateText({ model: unnamed, prompt: 'three' })
      await generateText({ model: unnamed, prompt: 'four' })
      await generateText({ model: rolloutModel(), prompt: 'five' })
    })
    const [one, two, three, four, five] = sampleIds(server)
    expect([one, two]).toEqual(['main', 'main'])
    expect(four).toBe(three)
    expect(new Set([one, three, five]).size).toBe(3)
    expect([...(await rollout.getSamples()).keys()]).toEqual([one, three, five])
  })

  test('a name that cannot travel in a header is refused', async () => {
    await using server = await startPolicyServer([])
    await rolloutOn(server).run(async () => {
      const call = generateText({ model: rolloutModel('Zoë\n'), prompt: 'go' })
      await expect(call).rejects.toMatchObject({ code: 'invalid_id' })
    })
  })

  test('two installed copies of the package share models and the samples of a rollout', async () => {
    const copy = (await import(secondCopy)) as { rolloutModel: typeof rolloutModel }
    expect(copy.rolloutModel).not.toBe(rolloutModel)
    await using server = await startPolicyServer(['one', 'two'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = new OsmosisToolLoopAgent({ id: 'main', model: copy.rolloutModel() })
      await agent.generate({ prompt: 'go' })
      await generateText({ model: copy.rolloutModel('main'), prompt: 'go' })
    })
    expect(sampleIds(server)).toEqual(['main', 'main'])
    expect([...(await rollout.getSamples()).keys()]).toEqual(['main'])
  })
})

describe('an OsmosisToolLoopAgent', () => {
  test('reserves its id in the rollout when it is constructed, and is a sample after its first call', async () => {
    await using server = await startPolicyServer(['done'])
    const rollout = rolloutOn(server)
    const agent = rollout.run(
      () => new OsmosisToolLoopAgent({ id: 'main', model: rolloutModel('other') }),
    )
    expect(agent.id).toBe('main')
    expect(rollout.sampleSourceNames).toEqual(['main'])
    expect(await rollout.getSamples()).toEqual(new Map())
    await rollout.run(async () => agent.generate({ prompt: 'go' }))
    expect(sampleIds(server)).toEqual(['main'])
    expect((await sampleOf(rollout, 'main')).messages).toHaveLength(2)
  })

  test('has the name of its model without an id, and an id without a name', async () => {
    await using server = await startPolicyServer([])
    rolloutOn(server).run(() => {
      expect(new OsmosisToolLoopAgent({ model: rolloutModel('named') }).id).toBe('named')
      expect(new OsmosisToolLoopAgent({ model: rolloutModel() }).id).toMatch(/^[0-9a-f-]{36}$/)
    })
  })

  test('calls the step callbacks of its user, the deprecated one as well', async () => {
    await using server = await startPolicyServer(() => 'done')
    const steps: string[] = []
    await rolloutOn(server).run(async () => {
      for (const name of ['onStepEnd', 'onStepFinish']) {
        const callback = { [name]: () => void steps.push(name) }
        const agent = new OsmosisToolLoopAgent({ id: name, model: rolloutModel(), ...callback })
        await agent.generate({ prompt: 'go' })
      }
    })
    expect(steps).toEqual(['onStepEnd', 'onStepFinish'])
  })

  test('accepts the system messages of a prompt by default', async () => {
    await using server = await startPolicyServer(['done'])
    await rolloutOn(server).run(async () => {
      const messages = [
        { role: 'system' as const, content: 'Be kind.' },
        { role: 'user' as const, content: 'go' },
      ]
      await new OsmosisToolLoopAgent({ model: rolloutModel() }).generate({ messages })
      const strict = new OsmosisToolLoopAgent({
        model: rolloutModel(),
        allowSystemInMessages: false,
      })
      await expect(strict.generate({ messages })).rejects.toThrow(/system/i)
    })
    expect(server.requests).toHaveLength(1)
  })

  test('with another model is a ToolLoopAgent and no sample', async () => {
    await using server = await startPolicyServer([])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = new OsmosisToolLoopAgent({ id: 'main', model: production() })
      expect((await agent.generate({ prompt: 'go' })).text).toBe('from production')
      expect(agent).toBeInstanceOf(ToolLoopAgent)
    })
    expect((await rollout.getSamples()).size).toBe(0)
  })
})

test('calls that are not training data stand beside the conversation of their sample', async () => {
  await using server = await startPolicyServer(['hi', 'a title'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    await generateText({ model: rolloutModel('main'), prompt: 'hello' })
    const model = rolloutModel({ name: 'main', purpose: 'title', trainable: false })
    await generateText({ model, prompt: 'title of: hello' })
  })
  const [own, title] = server.requests.map(({ headers }) => [
    headers['x-osmosis-purpose'],
    headers['x-osmosis-trainable'],
  ])
  expect([own, title]).toEqual([
    [undefined, undefined],
    ['title', 'false'],
  ])
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.messages).toMatchObject([{ role: 'user' }, { role: 'assistant' }])
  expect(JSON.stringify(sample?.messages)).not.toContain('title')
  expect(sample?.calls.map(({ purpose, trainable }) => [purpose, trainable])).toEqual([
    ['agent', true],
    ['title', false],
  ])
})
