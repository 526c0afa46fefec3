// @module-tag slow
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'

import { expect, it, onTestFinished } from 'vitest'

import { isRunning, onlyIf } from '../../../../test/kit/index.ts'
import { openPolicy } from './pool-under-test.ts'

it('workers exit with their parent, even when their code blocks', async () => {
  const policy = await openPolicy()
  const parent = startParent(policy.url, 'ask loop', 'wait')
  const pids = JSON.parse(await parent.next()) as number[]
  await policy.waitForRequest(0)
  expect(pids.map(isRunning)).toEqual([true, true])
  process.kill(parent.pid, 'SIGKILL')
  await expect.poll(() => pids.some(isRunning)).toBe(false)
})

it('signals of a terminal do not end the workers, so that the parent drains and exits with them', async () => {
  const gate = Promise.withResolvers<string>()
  const policy = await openPolicy(async () => gate.promise)
  const parent = startParent(policy.url, 'ask')
  const pids = JSON.parse(await parent.next()) as number[]
  await policy.waitForRequest(0)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.kill(-parent.pid, signal)
    expect(await parent.next()).toBe(`parent got ${signal}`)
  }
  gate.resolve('yes')
  expect(await parent.next()).toBe('success')
  expect(await parent.ended).toBe(0)
  expect(pids.some(isRunning)).toBe(false)
})

it.each(['garble-channel', 'send-nonsense'])(
  'a message of user code to the parent ends only its worker: %s',
  async (harm) => {
    const policy = await openPolicy()
    const parent = startParent(policy.url, harm, 'pause pause pause')
    await parent.next()
    const outcomes = [await parent.next(), await parent.next()]
    expect(outcomes.toSorted()).toEqual(['failure', 'success'])
    expect(await parent.ended).toBe(0)
  },
)

it('a rollout that prints continues when the reader has exited', async () => {
  const file = path.join(import.meta.dirname, 'parent-process.ts')
  const parent = spawn(process.execPath, [file, 'http://127.0.0.1:9/v1', 'print'])
  parent.stderr.destroy()
  const [printed] = await Promise.all([text(parent.stdout), once(parent, 'exit')])
  expect(printed.split('\n').slice(1)).toEqual(['success', ''])
})

onlyIf(process.platform !== 'win32', 'a POSIX shell').it(
  'a parent without free file descriptors replaces its workers when it has some again',
  async () => {
    const file = path.join(import.meta.dirname, 'parent-without-files.ts')
    const limited = ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, file]
    const { stdout } = await promisify(execFile)('sh', limited)
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^the worker process was killed/),
      expect.stringMatching(/^the worker process could not be started: .* EMFILE$/),
      expect.stringMatching(/^could not be started: .* EMFILE, with 0 streams$/),
      'with files again: success',
      '',
    ])
  },
)

/** A process with a pool, and the lines that it prints. */
interface ParentProcess {
  readonly pid: number
  /** Its exit code. */
  readonly ended: Promise<unknown>
  next(): Promise<string>
}

/** Starts a process with a pool, as the leader of a process group, that runs these rollouts concurrently. */
function startParent(policyUrl: string, ...does: string[]): ParentProcess {
  const file = path.join(import.meta.dirname, 'parent-process.ts')
  const parent = spawn(process.execPath, [file, policyUrl, ...does], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const pid = parent.pid ?? 0
  onTestFinished(() => {
    parent.kill('SIGKILL')
  })
  const lines = createInterface(parent.stdout)[Symbol.asyncIterator]()
  const ended = once(parent, 'exit').then(([code]) => code as unknown)
  return { pid, ended, next: async () => String((await lines.next()).value) }
}
