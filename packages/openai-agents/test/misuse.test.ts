import { Agent, MemorySession, run, Runner } from '@openai/agents'
import { isOsmosisError } from '@osmosis/core'
import { OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { rolloutOn } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

/** Code and message of what `body` throws. */
async function refusal(body: () => unknown): Promise<string> {
  try {
    await body()
  } catch (error) {
    if (isOsmosisError(error)) return `${error.code}: ${error.message}`
    throw error
  }
  throw new Error('nothing was refused')
}

describe('no session', () => {
  const sentence =
    'missing_session: The policy was called by a run without an OsmosisMemorySession. Pass `{ session: new OsmosisMemorySession({ name }) }` to run(), and the same session to a run that continues it.'

  test('is refused with what to pass', async () => {
    const rollout = rolloutOn({ url: 'http://policy.invalid' })
    expect(await rollout.run(async () => refusal(async () => run(policyAgent(), 'go')))).toBe(
      sentence,
    )
  })

  test('is what a session of another class amounts to', async () => {
    const rollout = rolloutOn({ url: 'http://policy.invalid' })
    const session = new MemorySession()
    expect(
      await rollout.run(async () => refusal(async () => run(policyAgent(), 'go', { session }))),
    ).toBe(sentence)
  })
})

describe('another rollout', () => {
  const here = rolloutOn({ url: 'http://policy.invalid' }, 'here')
  const there = rolloutOn({ url: 'http://policy.invalid' }, 'there')

  test('a session from outside of any rollout is refused', async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    expect(
      await here.run(async () => refusal(async () => run(policyAgent(), 'go', { session }))),
    ).toBe(
      'wrong_rollout_context: The OsmosisMemorySession "main" is not part of this rollout: it was made outside of any rollout. Construct the session inside AgentWorkflow.run().',
    )
  })

  test('a session of another rollout is refused by everything it does', async () => {
    const session = there.run(() => new OsmosisMemorySession({ name: 'main' }))
    const uses = [
      async () => session.getItems(),
      async () => session.addItems([]),
      async () => session.popItem(),
      async () => session.clearSession(),
      async () => session.applyHistoryMutations({ mutations: [] }),
      async () =>
        session.applyHistoryTransaction({
          operationId: 'one',
          transaction: { type: 'append_items', items: [] },
        }),
      async () => run(policyAgent(), 'go', { session }),
    ]
    for (const use of uses) {
      expect(await here.run(async () => refusal(use))).toMatch(
        /^wrong_rollout_context: The OsmosisMemorySession "main" of rollout "there" was used inside rollout "here"\./,
      )
    }
  })

  test('an agent of another rollout is refused', async () => {
    const agent = there.run(() => policyAgent())
    expect(
      await here.run(async () =>
        refusal(async () => run(agent, 'go', { session: new OsmosisMemorySession() })),
      ),
    ).toMatch(
      /^wrong_rollout_context: An OsmosisAgent of rollout "there" was used inside rollout "here"\. .*AsyncResource\.bind/,
    )
  })
})

describe('the placeholder model', () => {
  test('answers nothing itself', async () => {
    const agent = new Agent({ name: 'plain', model: new OsmosisRolloutModel() })
    const message =
      /^placeholder_model: OsmosisRolloutModel is a placeholder .* Pass it as the `model` of an OsmosisAgent/
    expect(await refusal(async () => run(agent, 'go'))).toMatch(message)
    const runner = new Runner({ model: new OsmosisRolloutModel() })
    expect(await refusal(async () => runner.run(agent, 'go'))).toMatch(message)
    expect(await refusal(async () => (await run(agent, 'go', { stream: true })).completed)).toMatch(
      message,
    )
  })
})

describe('a session name', () => {
  test('can travel in a header, inside a rollout and out', async () => {
    expect(await refusal(() => new OsmosisMemorySession({ name: 'plänner' }))).toMatch(
      /^invalid_id: The sample id "plänner"/,
    )
  })

  test('is random when it is not given', async () => {
    const rollout = rolloutOn({ url: 'http://policy.invalid' })
    const names = await rollout.run(async () => [
      new OsmosisMemorySession().name,
      new OsmosisMemorySession().name,
    ])
    expect(new Set(names).size).toBe(2)
    expect(rollout.sampleSourceNames).toEqual(names)
  })
})

test('a run inside a rollout that calls no policy needs no session', async () => {
  await using server = await startPolicyServer([])
  const silent = {
    getResponse: async () => {
      throw new Error('a model of the user’s own')
    },
    getStreamedResponse: async function* () {
      yield* []
    },
  }
  const agent = new Agent({ name: 'own', model: silent })
  await expect(rolloutOn(server).run(async () => run(agent, 'go'))).rejects.toThrow(
    'a model of the user’s own',
  )
})
