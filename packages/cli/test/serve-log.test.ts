import { expect, it } from 'vitest'

import { inWorkspace, run, start } from './in-process.ts'
import { startInTerminal } from './pseudo-terminal.ts'

inWorkspace()

const serve = ['serve', 'rollouts/echo/main.ts', '--port', '0']

it('osmosis serve has a human-readable log with --log-format pretty, at the level of --log-level', async () => {
  const serving = start([...serve, '--log-format', 'pretty'])
  await serving.printed(/\d\d:\d\d:\d\d\.\d{3} INFO {2}listening url=http:/)

  const quiet = start([...serve, '--log-level', 'error'])
  await quiet.printed(/Listening on/)
  expect((await quiet.end()).stderr).toBe('')
})

it('osmosis serve names the formats and levels that there are', async () => {
  const { stderr } = await run([...serve, '--log-format', 'xml'])
  expect(stderr).toMatch(/Allowed choices are auto, pretty, json/)
  const level = await run([...serve, '--log-level', 'loud'])
  expect(level.stderr).toMatch(/Allowed choices are debug, info, warn, error/)
})

it('osmosis serve has a human-readable log in a terminal', async () => {
  const terminal = startInTerminal(serve)
  expect(await terminal.until('listening url=http')).toMatch(/\d INFO {2}listening/)
  terminal.type('\u0003')
  await terminal.ended
})
