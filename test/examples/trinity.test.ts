import { discoverEntrypoint, LocalBackend } from '@osmosis/server'
import { FakeTrinity } from '../kit/trainers/index.ts'
import { runTrainerWorker, trinity } from '@osmosis/trainer-links'
import { expect, test } from 'vitest'

import { multiplyAgents, multiplyModel as model } from './multiply-agents.ts'

const [first, ...others] = multiplyAgents

test.each([first])(
  'with %s, Trinity trains what was rewarded, and not two calls of what failed',
  check,
)
// Each adapter is the same to a trainer: their contract shows that, and the slow cases of `agent-lightning.test.ts`.
test.each(others)(
  'with %s, Trinity trains what was rewarded, and not two calls of what failed',
  { tags: 'nightly' },
  check,
)

async function check(_name: string, exports: Readonly<Record<string, unknown>>): Promise<void> {
  await using explorer = await FakeTrinity.start({ model })
  const row = {
    initialMessages: [{ role: 'user', content: '12 * 3?' }],
    label: '36',
    metadata: null,
  }
  await using link = trinity({
    url: explorer.url,
    dataset: [row],
    attempts: 3,
    groupsPerCommit: 1,
    runName: 'run',
  })
  const backend = new LocalBackend(discoverEntrypoint(exports))
  const { ends, retried } = await runTrainerWorker({ backend, link, concurrency: 3 })

  expect({ ends, retried }).toEqual({
    ends: { rewarded: 2, removed: 0, failed: 1, cancelled: 0 },
    retried: 1,
  })
  const trained = explorer.trained().map(({ group, run, reward }) => ({ group, run, reward }))
  const right = { group: '0-0', run: 2, reward: 1 }
  const wrong = { group: '0-0', run: 3, reward: 0 }
  expect(trained.toSorted((a, b) => a.run - b.run)).toEqual([
    right,
    right,
    right,
    wrong,
    wrong,
    wrong,
  ])
  // Each prompt continues where the one before ended: one sequence to learn from.
  const prompts = explorer
    .trained()
    .filter(({ run }) => run === 2)
    .map(({ promptIds }) => promptIds)
  for (const [index, prompt] of prompts.slice(1).entries()) {
    const before = prompts[index] ?? []
    // Without the bracket behind the messages.
    expect(prompt.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
  }
  const failed = explorer.unrewarded().map(({ rolloutId }) => rolloutId)
  expect(failed.toSorted((a, b) => a.localeCompare(b))).toEqual([
    'run-0-0-1',
    'run-0-0-1',
    'run-0-0-1-again',
    'run-0-0-1-again',
  ])
}
