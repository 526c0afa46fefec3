import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { startServerProcess } from '../../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import {
  environmentOf,
  expectExactly,
  newJournal,
  program,
  trainUntilDone,
} from './restarts-under-test.ts'
import { startExplorer } from './scripted-attempts.ts'

test('a worker that is killed again and again trains each attempt once, with its reward', async () => {
  // In the middle of model calls, at rewards, at commits, and at the very start.
  const exits = await trainUntilDone(
    (route, n) =>
      (route === '/commit' && n <= 2) ||
      (route === '/feedback' && [2, 20].includes(n)) ||
      (route === '/v1/models' && n === 2) ||
      (route === '/v1/chat/completions' && [5, 40].includes(n)),
  )
  expect(exits.at(-1)).toBe(0)
  expect(exits.length).toBeGreaterThanOrEqual(8)
})

test('a worker that is killed in the middle of any step of its disk trains each attempt once', async () => {
  await using explorer = await startExplorer()
  const journal = await newJournal()
  const steps: string[] = []
  // Each start gets further than the one before, from its very first step on.
  for (let count = 0; explorer.commits().length < 3; count += 1) {
    const env = { ...environmentOf(explorer, journal), WAITS_FOR_DISK: '1' }
    const worker = await startServerProcess(program, env)
    const ended = worker.exit.then(() => 'its end')
    steps.push(await Promise.race([worker.freezeDisk(count), ended]))
    await worker.end()
  }
  expect(new Set(steps)).toEqual(new Set(['open', 'write', 'sync', 'rename', 'datasync']))
  expectExactly(explorer, 6, 4)
})

test('a full disk ends the worker, and the next one continues with what was committed', async () => {
  let fill: (() => Promise<void>) | undefined
  await using explorer = await startExplorer({ onCommit: async () => fill?.() })
  const journal = await newJournal()
  const worker = await startServerProcess(program, environmentOf(explorer, journal))
  fill = async () => worker.fillDisk()
  const [code] = await worker.exit
  expect(code).toBe(1)
  expect(explorer.commits()).toHaveLength(1)

  fill = undefined
  const next = spawn(process.execPath, [fileURLToPath(program)], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: environmentOf(explorer, journal),
  })
  expect(await once(next, 'exit')).toEqual([0, null])
  expectExactly(explorer, 6, 4)
})
