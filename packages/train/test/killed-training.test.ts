// @module-tag nightly
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { openRun, readTrainingJournal } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'

const steps = 24
const kills = 20

it('a training that is killed twenty times has each step once', { timeout: 600_000 }, async () => {
  const folder = await temporaryFolder()
  const done = path.join(folder, 'weights.json')
  const codes = new Set<number | null>()
  let killed = 0
  while (!existsSync(done)) {
    const child = spawn(
      process.execPath,
      [path.join(import.meta.dirname, 'killed-training.ts'), folder, String(steps)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const ended = once(child, 'close')
    // Some are killed before they do anything, some in the middle of a step, some between two.
    let left = killed < kills ? Math.floor(Math.random() * 50) : Infinity
    if (left === 0) child.kill('SIGKILL')
    createInterface({ input: child.stdout }).on('line', () => {
      left -= 1
      if (left <= 0) child.kill('SIGKILL')
    })
    await ended
    if (child.signalCode === 'SIGKILL') killed += 1
    else codes.add(child.exitCode)
  }
  expect([...codes]).toEqual([0])

  const records = readTrainingJournal(folder)
  const ended = records.filter((record) => record.kind === 'step')
  expect(ended.map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, at) => at + 1))
  // A step without a signal makes no update; all others make one.
  const updates = ended.filter(({ update }) => update !== null).length
  expect(ended.at(-1)?.version).toBe(updates)
  const rollouts = new Set<string>()
  for (const { run, batch } of ended) {
    const { events } = await openRun(path.join(folder, 'runs', run))
    expect(events.size).toBe(32)
    expect(batch.groups).toBe(8)
    for (const { rollout_id: id } of events.values()) rollouts.add(id)
  }
  expect(rollouts.size).toBe(steps * 32)
  expect(killed).toBeGreaterThan(kills / 2)
})
