import { discoverEntrypoint, LocalBackend } from '@osmosis/server'
import { agentLightning, runTrainerWorker } from '@osmosis/trainer-links'
import { expect, test } from 'vitest'

import { FakeAgentLightning } from '../kit/trainers/index.ts'
import { multiplyAgents, multiplyModel as model } from './multiply-agents.ts'

const [first, ...others] = multiplyAgents

test.each([first])(
  'with %s, Agent Lightning trains what was rewarded, and not two calls of what failed',
  check,
)
// Each adapter is the same to a trainer: their contract shows that.
test.each(others)(
  'with %s, Agent Lightning trains what was rewarded, and not two calls of what failed',
  { tags: 'nightly' },
  check,
)

async function check(_name: string, exports: Readonly<Record<string, unknown>>): Promise<void> {
  await using gateway = await FakeAgentLightning.start({ model })
  const input = { question: '12 * 3?', answer: '36' }
  gateway.enqueue(['row-1', 'row-2', 'row-3'].map((id) => ({ id, group: 'row', input })))
  await using link = agentLightning({ url: gateway.url, lookSeconds: 0.05 })
  const backend = new LocalBackend(discoverEntrypoint(exports))
  const ending = new AbortController()
  const done = runTrainerWorker({ backend, link, concurrency: 3, signal: ending.signal })
  await gateway.allEnded()
  ending.abort()
  const { ends, retried } = await done

  expect({ ends, retried }).toEqual({
    ends: { rewarded: 2, removed: 0, failed: 1, cancelled: 0 },
    retried: 1,
  })
  const { attempt } = gateway.rollout('row-1').events.at(-1) ?? {}
  expect(attempt).toMatch(/^1-/)
  const trained = Map.groupBy(gateway.trained(), ({ rolloutId }) => rolloutId)
  const rewards = [...trained].map(([id, calls]) => [id, calls.map(({ reward }) => reward)])
  expect(rewards).toEqual([
    ['row-2', [1, 1, 1]],
    ['row-3', [0, 0, 0]],
  ])
  // Each prompt continues where the one before ended: one sequence to learn from.
  const prompts = (trained.get('row-2') ?? []).map(({ promptIds }) => promptIds)
  for (const [index, prompt] of prompts.slice(1).entries()) {
    const before = prompts[index] ?? []
    // Without the bracket behind the messages.
    expect(prompt.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
  }
}
