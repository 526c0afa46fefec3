import { discoverEntrypoint, LocalBackend, createRolloutServer, serve } from '@osmosis/server'
import { expect, test } from 'vitest'

import { FakeMiles } from '../kit/trainers/index.ts'
import { multiplyAgents, multiplyModel } from './multiply-agents.ts'

const [first, ...others] = multiplyAgents

test.each([first])(
  'with %s, Miles trains what was rewarded, and with its filter nothing of a group with a failure',
  check,
)
// Each adapter is the same to a trainer: their contract shows that, and the slow cases of `agent-lightning.test.ts`.
test.each(others)(
  'with %s, Miles trains what was rewarded, and with its filter nothing of a group with a failure',
  { tags: 'nightly' },
  check,
)

async function check(_name: string, exports: Readonly<Record<string, unknown>>): Promise<void> {
  const backend = new LocalBackend(discoverEntrypoint(exports))
  const server = createRolloutServer({ backend, run: true, trajectories: false, logger: false })
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const { url } = listening
  await using miles = await FakeMiles.start({ model: multiplyModel })
  await using filtered = await FakeMiles.start({ model: multiplyModel, filter: true })
  const row = { question: '12 * 3?', answer: '36' }

  const ends = await miles.generate(url, [row], { attempts: 3 })
  expect(ends.map(({ answer }) => [answer?.exit_status, answer?.reward])).toEqual([
    ['failed', undefined],
    ['completed', 1],
    ['completed', 0],
  ])
  const [failed, ...completed] = ends.map(({ calls }) => calls.map(({ reward }) => reward))
  expect([failed, ...completed]).toEqual([
    [0, 0],
    [1, 1, 1],
    [0, 0, 0],
  ])
  // Each prompt continues where the one before ended: one sequence to learn from.
  const prompts = (ends[1]?.calls ?? []).map(({ promptIds }) => promptIds)
  for (const [index, prompt] of prompts.slice(1).entries()) {
    const before = prompts[index] ?? []
    // Without the bracket behind the messages.
    expect(prompt.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
  }

  await filtered.generate(url, [row], { attempts: 3 })
  expect(filtered.rollouts).toHaveLength(3)
  expect(filtered.trained()).toEqual([])
}
