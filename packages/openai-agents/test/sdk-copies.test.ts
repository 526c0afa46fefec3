import { createRequire } from 'node:module'

import {
  type Agent as AgentOfSdk,
  type run as runOfSdk,
  type Runner as RunnerOfSdk,
  run,
} from '@openai/agents'
import { instrumentRunner, OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test, vi } from 'vitest'

import { isNewestVersion, rolloutOn, sampleIds } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

interface Sdk {
  readonly Agent: typeof AgentOfSdk
  readonly run: typeof runOfSdk
  readonly Runner: typeof RunnerOfSdk
}

/** The CommonJS form of the SDK: a second set of classes. */
function commonJsSdk(): Sdk {
  return createRequire(import.meta.url)(
    isNewestVersion() ? '@openai/agents' : '@openai/agents-lowest',
  ) as Sdk
}

// The tests build on one another: a copy of the SDK can be loaded and wrapped only once.

test(
  'a run of an unknown copy of the SDK belongs to the only session there is',
  { tags: 'slow' },
  async () => {
    await using server = await startPolicyServer(['hi'])
    await rolloutOn(server).run(async () => {
      const agent = policyAgent()
      const session = new OsmosisMemorySession({ name: 'main' })
      // Loaded behind the binding, as a lazy require is.
      await commonJsSdk().run(agent, 'hello', { session })
    })
    expect(sampleIds(server)).toEqual(['main'])
  },
)

test('with several sessions it is refused, and says how to make the copy known', async () => {
  const rollout = rolloutOn({ url: 'http://policy.invalid' })
  const attempt = rollout.run(async () => {
    // Model calls that reach no wrapped run, as those of a copy that was never instrumented.
    const agent = policyAgent()
    const sessions = ['planner', 'executor'].map((name) => new OsmosisMemorySession({ name }))
    const model = agent.model as { getResponse(request: object): Promise<unknown> }
    expect(sessions).toHaveLength(2)
    await model.getResponse({ input: 'hello', modelSettings: {}, tools: [], handoffs: [] })
  })
  await expect(attempt).rejects.toMatchObject({
    code: 'missing_session',
    message: expect.stringMatching(/"planner", "executor".*instrumentRunner\(Runner\)/),
  })
})

test('instrumentRunner makes a copy known, however often it is called', async () => {
  const sdk = commonJsSdk()
  instrumentRunner(sdk.Runner)
  const { run: wrapped } = sdk.Runner.prototype as { run: unknown }
  instrumentRunner(sdk.Runner)
  expect((sdk.Runner.prototype as { run: unknown }).run).toBe(wrapped)

  await using server = await startPolicyServer(() => 'hi')
  await rolloutOn(server).run(async () => {
    const agent = policyAgent()
    for (const name of ['planner', 'executor']) {
      await sdk.run(agent, 'hello', { session: new OsmosisMemorySession({ name }) })
    }
  })
  expect(sampleIds(server)).toEqual(['planner', 'executor'])
})

// Where the oldest version runs, `@openai/agents` is an alias that require() does not know.
test.runIf(isNewestVersion())('the CommonJS form is found when it is loaded already', async () => {
  class FreshRunner {
    async run(_agent: unknown, _input: unknown, options: { session: OsmosisMemorySession }) {
      return options.session.getItems()
    }
  }
  const require = createRequire(import.meta.url)
  const cached = require.cache[require.resolve('@openai/agents')]
  const { exports: original } = cached as { exports: object }
  const runOf = (): unknown => (FreshRunner.prototype as { run: unknown }).run
  const before = runOf()
  try {
    Object.assign(cached as object, { exports: { Runner: FreshRunner } })
    rolloutOn({ url: 'http://policy.invalid' }).run(() => new OsmosisMemorySession())
  } finally {
    Object.assign(cached as object, { exports: original })
  }
  expect(runOf()).not.toBe(before)
})

test('outside of rollouts runs are handed on as they are', async () => {
  const calls: unknown[][] = []
  class OwnRunner {
    async run(...args: unknown[]): Promise<string> {
      calls.push(args)
      return 'as it was'
    }
  }
  instrumentRunner(OwnRunner)
  expect(await new OwnRunner().run('agent', [{ role: 'developer', content: 'x' }])).toBe(
    'as it was',
  )
  expect(calls).toEqual([['agent', [{ role: 'developer', content: 'x' }]]])
})

test('two loaded copies of this package agree on who a run belongs to', async () => {
  vi.resetModules()
  const copy = await import('@osmosis/openai-agents')
  expect(copy.OsmosisMemorySession).not.toBe(OsmosisMemorySession)
  await using server = await startPolicyServer(() => 'hi')
  await rolloutOn(server).run(async () => {
    const ours = policyAgent()
    const theirs = new copy.OsmosisAgent({ name: 'x', model: new copy.OsmosisRolloutModel() })
    await run(ours, 'hello', { session: new copy.OsmosisMemorySession({ name: 'theirs' }) })
    await run(theirs, 'hello', { session: new OsmosisMemorySession({ name: 'ours' }) })
  })
  expect(sampleIds(server)).toEqual(['theirs', 'ours'])
})
