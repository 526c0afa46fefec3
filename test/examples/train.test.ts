import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { readDataset } from '@osmosis/eval'
import { discoverEntrypoint, LocalBackend, createRolloutServer, serve } from '@osmosis/server'
import { expect, it, onTestFinished } from 'vitest'

import * as openDoor from '../../examples/train/main.ts'
import { policy as untrained } from '../../examples/train/untrained.ts'
import { tokenAnswer } from '../kit/index.ts'
import { FakeOsmosis, type FakeModel } from '../kit/trainers/index.ts'
import { root, run } from './command.ts'

/** Reads the note, and says what it reads. */
const reader: FakeModel = (body) => {
  const note = body.messages.find(({ role }) => role === 'tool')
  if (note !== undefined) return tokenAnswer(body, { content: note.content })
  const called = { name: 'read_note', arguments: '{}' }
  const toolCalls = [{ id: 'c1', type: 'function' as const, function: called }]
  return tokenAnswer(body, { content: null, tool_calls: toolCalls })
}

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

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: { 'demo:train': string }
}

it(
  'an agent learns while one watches, and the runs before and after are there to be read',
  { tags: 'slow', timeout: 600_000 },
  async () => {
    const output = mkdtempSync(path.join(tmpdir(), 'osmosis-train-'))
    onTestFinished(() => rmSync(output, { recursive: true }))
    const [command = '', ...args] = scripts['demo:train'].split(' ')
    args.push('--iterations', '7', '--output', output)
    const { code, stdout, stderr } = await run(command, args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })

    const rewards = [...stdout.matchAll(/^ +(\d+) +([01]\.\d\d)  [█▏▎▍▌▋▊▉]/gm)].map(toFigures)
    expect(rewards.map(([iteration]) => iteration)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(rewards[0]?.[1]).toBeLessThan(0.35)
    expect(rewards.at(-1)?.[1]).toBeGreaterThan(0.7)
    expect(stdout).not.toContain('\u001B')
    expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)

    const conversations = [...stdout.matchAll(/npx osmosis (eval show .*)$/gm)]
    const [before = '', after = ''] = await Promise.all(
      conversations.map(async ([, words = '']) => (await run('osmosis', words.split(' '))).stdout),
    )
    expect(conversations).toHaveLength(2)
    expect(before).toMatch(/^\d+\.\d  reward 0, not passed/m)
    expect(after).toMatch(/^\d+\.\d  reward 1, passed/m)
    expect(after).toContain('→ read_note()')
    expect(stdout).toContain(`npx osmosis eval view --output ${output}\n`)
  },
)

function toFigures([, iteration, reward]: RegExpMatchArray): [number, number] {
  return [Number(iteration), Number(reward)]
}
