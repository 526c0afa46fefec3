import {
  getRolloutContext,
  requireRolloutContext,
  RolloutContext,
  toRolloutSample,
} from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { answerStream, sendStream, startPolicyEndpoint } from '../../../test/kit/index.ts'

// A query makes the loader run the module a second time, as a second installed copy would.
const secondCopy = '../src/rollout-context.ts?copy'

const context = (rolloutId = 'r'): RolloutContext =>
  new RolloutContext({ rolloutId, chatCompletionsUrl: 'http://127.0.0.1:9/v1' })

describe('the ambient rollout', () => {
  it('follows everything that was started inside, and only that', async () => {
    const seen: (string | undefined)[] = []
    const note = (): void => {
      seen.push(getRolloutContext()?.rolloutId)
    }
    await context('outer').run(async () => {
      await Promise.resolve()
      note()
      await context('inner').run(async () => {
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
        note()
      })
      note()
    })
    note()
    expect(seen).toEqual(['outer', 'inner', 'outer', undefined])
  })

  it('is the same for two installed copies of the package', async () => {
    const copy = (await import(secondCopy)) as { getRolloutContext: typeof getRolloutContext }
    expect(copy.getRolloutContext).not.toBe(getRolloutContext)
    const rollout = context()
    expect(rollout.run(() => copy.getRolloutContext())).toBe(rollout)
  })

  it('is required with an error that says who needs it and where it exists', () => {
    expect(() => requireRolloutContext('OsmosisAgent')).toThrow(
      expect.objectContaining({
        code: 'no_rollout_context',
        message:
          'OsmosisAgent needs an active rollout: construct it inside AgentWorkflow.run(), where the backend has set one up.',
      }),
    )
  })
})

describe('making a context', () => {
  it('reads every setting from the environment with fromEnv()', () => {
    const rollout = RolloutContext.fromEnv({
      OSMOSIS_CHAT_COMPLETIONS_URL: 'http://127.0.0.1:9/v1/chat/completions',
      OSMOSIS_ROLLOUT_ID: 'from-env',
    })
    expect(rollout).toMatchObject({
      rolloutId: 'from-env',
      chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    })
    expect(() => RolloutContext.fromEnv({ OSMOSIS_CHAT_COMPLETIONS_URL: 'http://x' })).toThrow(
      /OSMOSIS_ROLLOUT_ID is not set/,
    )
    const wrong = { OSMOSIS_CHAT_COMPLETIONS_URL: '127.0.0.1:9/v1', OSMOSIS_ROLLOUT_ID: 'r' }
    expect(() => RolloutContext.fromEnv(wrong)).toThrow(
      'OSMOSIS_CHAT_COMPLETIONS_URL must be an http or https URL without credentials, got "127.0.0.1:9/v1".',
    )
  })

  it.each(['', ' padded', 'größe', 'a\nb', 'x'.repeat(257)])('refuses the id %j', (rolloutId) => {
    expect(() => context(rolloutId)).toThrow(expect.objectContaining({ code: 'invalid_id' }))
    expect(() => context().policy(rolloutId)).toThrow(
      expect.objectContaining({ code: 'invalid_id' }),
    )
    expect(() =>
      context().registerSampleSource(rolloutId, { getSample: () => expect.fail() }),
    ).toThrow(expect.objectContaining({ code: 'invalid_id' }))
  })

  it.each(['', 'nonsense', 'ftp://x/v1', 'http://user:pass@x/v1', 'http://user:pass#@x/v1'])(
    'refuses the URL %j without repeating credentials',
    (chatCompletionsUrl) => {
      expect(() => new RolloutContext({ rolloutId: 'r', chatCompletionsUrl })).toThrow(
        expect.objectContaining({
          code: 'invalid_request',
          message: expect.not.stringContaining('pass'),
        }),
      )
    },
  )
})

describe('samples', () => {
  it('come in the order their sources were registered, each under its name', async () => {
    const rollout = context()
    for (const name of ['planner', 'executor', 'critic']) {
      rollout.registerSampleSource(name, {
        getSample: async (id) =>
          toRolloutSample({ id: 'ignored', messages: [{ role: 'user', content: id }] }),
      })
    }
    const samples = await rollout.getSamples()
    expect([...samples.keys()]).toEqual(['planner', 'executor', 'critic'])
    expect(samples.get('executor')).toEqual({
      id: 'executor',
      messages: [{ role: 'user', content: 'executor' }],
      trajectoryMessages: null,
      calls: [],
      reward: null,
      label: null,
      stepRewards: null,
      removeSample: false,
      metrics: {},
      extraFields: {},
    })
  })

  it.each([null, undefined, {}, { messages: 'none' }])(
    'are refused when a source returns %j instead',
    async (returned) => {
      const rollout = context()
      rollout.registerSampleSource('main', { getSample: () => returned as never })
      await expect(rollout.getSamples()).rejects.toThrow(
        'The source of sample "main" must return an object with messages, e.g. from toRolloutSample().',
      )
    },
  )

  it('need names of their own', () => {
    const rollout = context()
    const source = { getSample: () => expect.fail() }
    rollout.registerSampleSource('main', source)
    expect(() => rollout.registerSampleSource('main', source)).toThrow(
      expect.objectContaining({
        code: 'duplicate_sample',
        message:
          'A sample named "main" is already registered in this rollout. Give every agent or session of the workflow a name of its own, also those that a tool makes anew for each call.',
      }),
    )
  })
})

it('keeps the ids of 50 rollouts with two samples each apart', async () => {
  const policy = await startPolicyEndpoint((response, _n, { headers }) => {
    sendStream(
      response,
      answerStream(`${String(headers['x-rollout-id'])}/${String(headers['x-sample-id'])}`),
    )
  })
  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const rollout = new RolloutContext({ rolloutId: `r${n}`, chatCompletionsUrl: policy.url })
      return rollout.run(() =>
        Promise.all(
          ['planner', 'executor'].map(async (name) => {
            const client = requireRolloutContext('test').policy(name)
            const { choices } = await client.complete({
              messages: [{ role: 'user', content: name }],
            })
            return choices[0]?.message.content
          }),
        ),
      )
    }),
  )
  expect(answers).toEqual(Array.from({ length: 50 }, (_, n) => [`r${n}/planner`, `r${n}/executor`]))
})
