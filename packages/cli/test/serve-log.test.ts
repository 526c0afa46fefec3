import { expect, it } from 'vitest'

import { osmosis, startOsmosis } from './osmosis.ts'
import { startInTerminal } from './pseudo-terminal.ts'

const serve = ['serve', 'rollouts/echo/main.ts', '--port', '0']

it('osmosis serve logs for people when it is asked to, and what is important enough', async () => {
  const serving = startOsmosis([...serve, '--log-format', 'pretty'])
  await serving.printed(/\d\d:\d\d:\d\d\.\d{3} INFO {2}listening url=http:/)

  const quiet = startOsmosis([...serve, '--log-level', 'error'])
  let logged = ''
  quiet.child.stderr?.on('data', (data: Buffer) => (logged += data.toString()))
  await quiet.printed(/Listening on/)
  expect(logged).toBe('')
})

it('osmosis serve names the formats and levels that there are', async () => {
  const { stderr } = await osmosis([...serve, '--log-format', 'xml'])
  expect(stderr).toMatch(/Allowed choices are auto, pretty, json/)
  const level = await osmosis([...serve, '--log-level', 'loud'])
  expect(level.stderr).toMatch(/Allowed choices are debug, info, warn, error/)
})

it('osmosis serve logs for people in a terminal', async () => {
  const terminal = startInTerminal(serve)
  expect(await terminal.until('listening url=http')).toMatch(/\d INFO {2}listening/)
  terminal.type('\u0003')
  await terminal.ended
})
