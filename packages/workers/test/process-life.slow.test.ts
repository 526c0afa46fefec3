import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'

import { onlyIf } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { openPolicy } from './pool-under-test.ts'
import { isAlive, startFront } from './start-front.ts'

it('SIGINT of a terminal leaves the workers to the front, which drains', async () => {
  const gate = Promise.withResolvers<string>()
  const policy = await openPolicy(async () => gate.promise)
  const front = startFront(policy.url, 'ask')
  const pids = JSON.parse(await front.next()) as number[]
  await policy.waitForRequest(0)
  process.kill(-front.pid, 'SIGINT')
  expect(await front.next()).toBe('front got SIGINT')
  gate.resolve('yes')
  expect(await front.next()).toBe('success')
  expect(await front.ended).toBe(0)
  expect(pids.some(isAlive)).toBe(false)
})

it.each(['garble-channel', 'send-nonsense'])(
  'what user code says to the front ends its worker alone: %s',
  async (harm) => {
    const policy = await openPolicy()
    const front = startFront(policy.url, harm, 'pause pause pause')
    await front.next()
    const outcomes = [await front.next(), await front.next()]
    expect(outcomes.toSorted()).toEqual(['failure', 'success'])
    expect(await front.ended).toBe(0)
  },
)

it('a rollout that prints what nobody reads any more continues', async () => {
  const file = path.join(import.meta.dirname, 'front-process.ts')
  const front = spawn(process.execPath, [file, 'http://127.0.0.1:9/v1', 'print'])
  front.stderr.destroy()
  const [printed] = await Promise.all([text(front.stdout), once(front, 'exit')])
  expect(printed.split('\n').slice(1)).toEqual(['success', ''])
})

onlyIf(process.platform !== 'win32', 'a POSIX shell').it(
  'a front that has no files left replaces its workers when it has some again',
  async () => {
    const file = path.join(import.meta.dirname, 'front-without-files.ts')
    const limited = ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, file]
    const { stdout } = await promisify(execFile)('sh', limited)
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^the worker process was killed/),
      expect.stringMatching(/^the worker process could not be started: .* EMFILE$/),
      'with files again: success',
      '',
    ])
  },
)
