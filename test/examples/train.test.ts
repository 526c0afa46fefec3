import path from 'node:path'

import { discoverEntrypoint, LocalBackend, createRolloutServer, serve } from '@osmosis/server'
import { readDataset } from '@osmosis/eval'
import { FakeOsmosis, type FakeModel } from '../kit/trainers/index.ts'
import { tokenAnswer } from '../kit/index.ts'
import { expect, it } from 'vitest'

import * as openDoor from '../../examples/train/main.ts'
import { policy as untrained } from '../../examples/train/untrained.ts'
import { root } from './command.ts'

/** Reads the note, and says what it reads. */
const reader: FakeModel = (body) => {
  const note = body.messages.find(({ role }) => role === 'tool')
  if (note !== undefined) return tokenAnswer(body, { content: note.content })
  const called = { name: 'read_note', arguments: '{}' }
  const toolCalls = [{ id: 'c1', type: 'function' as const, function: called }]
  return tokenAnswer(body, { content: null, tool_calls: toolCalls })
}

// The training itself, and what it leaves to be read, is in train.slow.test.ts.
it.each([
  { name: 'that reads the note opens each door', model: reader, least: 1, most: 1 },
  {
    name: 'without training opens few',
    model: (body, id) => untrained.complete(body, id),
    least: 0,
    most: 0.7,
  },
] satisfies { name: string; model: FakeModel; least: number; most: number }[])(
  'an agent $name',
  async ({ model, least, most }) => {
    const backend = new LocalBackend(discoverEntrypoint(openDoor))
    const server = createRolloutServer({ backend, trajectories: false, logger: false })
    await using listening = await serve(server, { port: 0, handleSignals: false })
    const { url } = listening
    await using cluster = await FakeOsmosis.start({ model, server: { url }, rewards: 'callbacks' })
    const rows = await readDataset(path.join(root, 'examples/train/doors.jsonl'))
    const rollouts = await cluster.runBatch(rows, 2)
    const rewards = rollouts.flatMap((rollout) => [...rollout.rewards.values()])
    expect(rewards).toHaveLength(rows.length * 2)
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
    expect(mean).toBeGreaterThanOrEqual(least)
    expect(mean).toBeLessThanOrEqual(most)
  },
)
