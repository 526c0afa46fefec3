import { expect, it } from 'vitest'

import { inWorkspace, run, start } from './in-process.ts'
import { startInTerminal } from './pseudo-terminal.ts'

inWorkspace()

const serve = ['serve', 'rollouts/echo/main.ts', '--port', '0']

it('osmosis serve has a log at the level of --log-level', async () => {
  const quiet = start([...serve, '--log-level', 'error'])
  await quiet.printed(/Listening on/)
  expect((await quiet.end()).stderr).toBe('')
})

it('osmosis serve names the levels that there are', async () => {
  const level = await run([...serve, '--log-level', 'loud'])
  expect(level.stderr).toMatch(/Allowed choices are debug, info, warn, error/)
})

it('osmosis serve has a human-readable log in a terminal', { tags: 'slow' }, async () => {
  const terminal = startInTerminal(serve)
  expect(await terminal.until('listening url=http')).toMatch(/\d INFO {2}listening/)
  terminal.type('\u0003')
  await terminal.ended
})
