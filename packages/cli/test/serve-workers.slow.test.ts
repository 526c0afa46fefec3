// @module-tag slow
import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { inWorkspace, start } from './in-process.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

it('a server is not started with an entrypoint that no worker can load', async () => {
  const folder = temporaryWorkspace({})
  writeFileSync(path.join(folder, 'broken.ts'), 'throw new Error("half an entrypoint")\n')
  const args = ['serve', path.join(folder, 'broken.ts'), '--port', '0']
  const [inProcess, inWorkers] = await Promise.all([
    start(args).finished,
    start([...args, '--workers', '2']).finished,
  ])
  expect(inWorkers.code).toBe(2)
  expect(inWorkers.stderr).toMatch(/^error: Cannot load the entrypoint .*half an entrypoint/s)
  expect(inProcess.stderr.split('\n')[0]).toBe(inWorkers.stderr.split('\n')[0])
})

it('a workflow in workers is not registered', async () => {
  const args = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--workers', '1', '--register']
  expect(await start(args).finished).toMatchObject({ code: 2 })
})
