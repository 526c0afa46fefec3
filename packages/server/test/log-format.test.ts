import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'

const script = fileURLToPath(new URL('./logging-process.ts', import.meta.url))

/** What a process logs in these formats. */
async function logged(formats: string, env: Record<string, string> = {}): Promise<string> {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env
  const child = spawn(process.execPath, [script, ...formats.split(' ')], {
    env: { PATH, NODE_COMPILE_CACHE, ...env },
  })
  return text(child.stderr)
}

it('the pretty log has a line for each event, with the rollout in it and stacks indented', async () => {
  const lines = (await logged('pretty')).replaceAll(/\d\d:\d\d:\d\d\.\d{3}/g, 'TIME').split('\n')
  expect(lines.join('')).not.toContain('\u001B')
  expect(lines.slice(0, 4)).toStrictEqual([
    'TIME DEBUG looked',
    'TIME INFO  r1 rollout accepted url=http://127.0.0.1:8000',
    'TIME WARN  r2�[2J said⏎12:00:00 ERROR of somebody else attempt=2',
    'TIME ERROR r1 rollout failed',
  ])
  expect(lines[4]).toBe('    Error: it broke')
  expect(lines.slice(5, -3).every((line) => line.startsWith('        at '))).toBe(true)
  expect(lines.slice(-3)).toStrictEqual(['    caused by', '    a disk is full', ''])
})

it('the pretty log has colours if they are enabled', async () => {
  expect(await logged('pretty', { FORCE_COLOR: '1' })).toContain('\u001B[31mERROR\u001B[39m')
})

it('the formats json and auto write JSON lines when stderr is not a terminal', async () => {
  const events = [
    { level: 20, msg: 'looked' },
    { level: 30, rollout_id: 'r1', msg: 'rollout accepted', url: 'http://127.0.0.1:8000' },
    { level: 40, attempt: 2 },
    { level: 50, error: { message: 'it broke' } },
  ]
  const lines = (await logged('json auto')).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([...events, ...events])
})

onlyIf(existsSync('/dev/full'), 'a system with /dev/full').it(
  'a log on a full disk loses its lines, and does not end the process',
  async () => {
    const stdio = ['ignore', 'ignore', openSync('/dev/full', 'w')] as const
    const child = spawn(process.execPath, [script, 'json'], { stdio: [...stdio] })
    expect(await once(child, 'exit')).toStrictEqual([0, null])
  },
)
