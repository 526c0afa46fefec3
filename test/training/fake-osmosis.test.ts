import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend, createRolloutServer, serve, silentLogger } from '@osmosis/server'
import { FakeOsmosis, TinyPolicy, type FakeOsmosisOptions } from '../kit/trainers/index.ts'
import { expect, it, onTestFinished } from 'vitest'

const tools = [{ type: 'function', function: { name: 'read_note', parameters: {} } }]

/** Asks once under the name of each sample of its row, and fails behind that if the row wants it. */
class AskOnce extends AgentWorkflow {
  async run({ prompt, metadata }: AgentWorkflowContext): Promise<void> {
    const rollout = requireRolloutContext('AskOnce')
    const samples = (metadata?.['samples'] ?? []) as string[]
    for (const name of samples) {
      await rollout.registerPolicySample(name).complete({ messages: prompt, tools })
    }
    if (metadata?.['fails'] === true) throw new Error('It fails.')
  }
}

/** The name of a sample says its reward, or that it is removed. */
class ByName extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) {
      if (id === 'removed') ctx.removeSample(id)
      else ctx.setSampleReward(id, Number(id))
    }
  }
}

async function start(options: Partial<FakeOsmosisOptions> = {}): Promise<FakeOsmosis> {
  const backend = new LocalBackend({ workflow: AskOnce, grader: ByName })
  const app = createRolloutServer({ backend, logger: silentLogger, trajectories: false })
  const server = await serve(app, { port: 0, host: '127.0.0.1' })
  const model = new TinyPolicy({ seed: 1 }).complete
  const cluster = await FakeOsmosis.start({ model, server, rewards: 'callbacks', ...options })
  onTestFinished(async () => {
    await cluster.close()
    await server.close()
  })
  return cluster
}

function row(...samples: string[]): Parameters<FakeOsmosis['runBatch']>[0][number] {
  return { initialMessages: [{ role: 'user', content: 'The code?' }], metadata: { samples } }
}

/** Group, rollout and reward of each call. */
function rewardsOf(cluster: FakeOsmosis): string[] {
  return cluster
    .trained()
    .map(({ group, rolloutId, reward }) => `${group} ${rolloutId} ${reward}`)
    .toSorted()
}

it.each(['callbacks', 'leases'] as const)(
  'trains each rollout with its own reward, in the group of its row, over %s',
  async (rewards) => {
    const cluster = await start({ rewards })
    const [, second] = await cluster.runBatch([row('0.25'), row('1')], 2)
    await cluster.runBatch([row('0')], 1)
    expect(second).toMatchObject({ rolloutId: '1-1-2', calls: 1, error: null })
    expect([...(second?.rewards.values() ?? [])]).toEqual([0.25])
    expect(rewardsOf(cluster)).toEqual([
      '1-1 1-1-1 0.25',
      '1-1 1-1-2 0.25',
      '1-2 1-2-1 1',
      '1-2 1-2-2 1',
      '2-1 2-1-1 0',
    ])
  },
)

it('trains each sample with its own reward, and nothing of one that was removed', async () => {
  const cluster = await start()
  await cluster.runBatch([row('0.5', 'removed', '1')], 1)
  expect(rewardsOf(cluster)).toEqual(['1-1 1-1-1 0.5', '1-1 1-1-1 1'])
})

it.each(['callbacks', 'leases'] as const)(
  'trains nothing of a rollout that failed, and says why it did, over %s',
  async (rewards) => {
    const cluster = await start({ rewards })
    const failing = { ...row('1'), metadata: { samples: ['1'], fails: true } }
    const [failed] = await cluster.runBatch([failing], 1)
    expect(failed).toMatchObject({ calls: 1, rewards: new Map() })
    expect(failed?.error).toMatch(/^thrown by run\(\) .*: It fails\.$/)
    expect(cluster.trained()).toEqual([])
  },
)

it('trains failures with a number only when `fillWith` is set', async () => {
  const cluster = await start({ fillWith: 0 })
  await cluster.runBatch([{ ...row('1'), metadata: { samples: ['1'], fails: true } }], 1)
  expect(rewardsOf(cluster)).toEqual(['1-1 1-1-1 0'])
})
