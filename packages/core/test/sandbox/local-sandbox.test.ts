import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { LocalSandbox, type LocalSandboxOptions } from '@osmosis/core/sandbox'
import { describe, expect, it, onTestFinished } from 'vitest'

import { isRunning } from '../../../../test/kit/index.ts'

const env = { PATH: process.env['PATH'] }

async function sandbox(
  options: Partial<LocalSandboxOptions> = {},
): Promise<{ box: LocalSandbox; folder: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sandbox-'))
  const box = new LocalSandbox({ folder, env, ...options })
  onTestFinished(async () => {
    await box.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { box, folder }
}

describe('a command', () => {
  it('runs in the folder, with its input and the variables that it was given, and no others', async () => {
    const { box } = await sandbox({ env: { ...env, GIVEN: '1' } })
    await box.write('a/b.txt', 'hello')
    const line = 'cat a/b.txt; cat; echo " $GIVEN $OWN"; basename "$HOME"; echo bad >&2; exit 3'
    const result = await box.exec(line, { input: ' in', env: { OWN: '2' } })
    expect(result).toEqual({
      exitCode: 3,
      stdout: expect.stringMatching(/^hello in 1 2\nsandbox-\w+\n$/),
      stderr: 'bad\n',
      timedOut: false,
      truncated: false,
    })
    const given = await box.exec(['env'])
    expect(given.stdout.match(/^\w+(?==)/gm)?.toSorted()).toEqual(['GIVEN', 'HOME', 'PATH'])
    expect((await box.exec(['cat', 'b.txt'], { cwd: 'a' })).stdout).toBe('hello')
  })

  type Run = (box: LocalSandbox, line: string, started: () => Promise<void>) => Promise<unknown>
  const ends: [string, Run][] = [
    ['its time is over', async (box, line) => box.exec(line, { timeoutSeconds: 2 })],
    [
      'the signal is aborted',
      async (box, line, started) => {
        const controller = new AbortController()
        void started().then(() => controller.abort())
        return box.exec(line, { signal: controller.signal })
      },
    ],
    [
      'the sandbox is closed',
      async (box, line, started) => {
        const running = box.exec(line)
        await started()
        await box.close()
        return running
      },
    ],
    ['it has ended itself', async (box, line) => box.exec(line.replace('wait', 'sleep 0.2'))],
  ]
  it.each(ends)('ends with what it started when %s', async (_, run) => {
    const { box, folder } = await sandbox()
    const file = path.join(folder, 'pid')
    const started = async (): Promise<void> =>
      expect.poll(() => existsSync(file), { timeout: 10_000 }).toBe(true)
    await run(box, 'sleep 60 & echo $! > new; mv new pid; wait', started).catch(() => {})
    const pid = Number(await readFile(file, 'utf8'))
    expect(pid).toBeGreaterThan(1)
    await expect.poll(() => isRunning(pid), { timeout: 10_000 }).toBe(false)
  })

  it('does not wait for a process that left its group', async () => {
    const { box } = await sandbox()
    const { stdout } = await box.exec('setsid sleep 20 & sleep 0.5; echo $!')
    onTestFinished(() => void process.kill(Number(stdout)))
    expect(isRunning(Number(stdout))).toBe(true)
  })

  it('that ended in its time is in time, although a process that left its group holds its output', async () => {
    const { box } = await sandbox()
    const line = 'setsid sleep 20 & sleep 1; echo $!'
    const { stdout, exitCode, timedOut } = await box.exec(line, { timeoutSeconds: 1.5 })
    if (stdout !== '') process.kill(Number(stdout))
    // A busy machine may take longer for it.
    expect(timedOut).toBe(exitCode === null)
  })

  it('says that its time is over, or that its output is too long', async () => {
    const { box } = await sandbox({ maxOutputBytes: 5 })
    expect(await box.exec('sleep 9', { timeoutSeconds: 0.1 })).toMatchObject({
      exitCode: null,
      timedOut: true,
    })
    expect(await box.exec('echo 123456789; echo 1 >&2')).toMatchObject({
      exitCode: 0,
      stdout: '12345',
      stderr: '1\n',
      truncated: true,
    })
  })

  it('has the time that it was given, also when that is longer than a timer of Node.js', async () => {
    const { box } = await sandbox({ timeoutSeconds: 10_000_000 })
    expect(await box.exec('sleep 0.3; echo done')).toMatchObject({
      stdout: 'done\n',
      timedOut: false,
    })
  })

  it('for which no file descriptor is free is an error, and the sandbox can go on and be closed', async () => {
    const file = path.join(import.meta.dirname, 'commands-without-files.ts')
    const limited = ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, file]
    const { stdout } = await promisify(execFile)('sh', limited)
    expect(stdout.split('\n')).toEqual([
      'tool_failed: true cannot be started: no file descriptor is free',
      'with files again: 0',
      'closed',
      '',
    ])
  })

  it('that cannot start is an error, as after the end of the sandbox', async () => {
    const { box } = await sandbox()
    const { signal } = new AbortController()
    await expect(box.exec(['no-such-program'], { signal })).rejects.toMatchObject({
      code: 'tool_failed',
    })
    await expect.poll(() => getEventListeners(signal, 'abort')).toEqual([])
    await box.write('file', '')
    for (const cwd of ['nowhere', 'file']) {
      await expect(box.exec('true', { cwd })).rejects.toMatchObject({
        code: 'tool_failed',
        message: expect.stringMatching(`^/bin/sh cannot be started: E.*/${cwd}/`),
      })
    }
    await box.exec('rm -r "$HOME"')
    await expect(box.exec('true')).rejects.toMatchObject({ code: 'tool_failed' })
    await box.close()
    await expect(box.exec('true')).rejects.toThrow('The sandbox is closed.')
  })
})

describe('a file', () => {
  it('is read and written below the folder only', async () => {
    const { box, folder } = await sandbox()
    await box.write('x/y.bin', new Uint8Array([0, 255]))
    expect([...(await box.read('x/y.bin'))]).toEqual([0, 255])
    await symlink('/etc', path.join(folder, 'out'))
    await symlink('/tmp/osmosis-nowhere', path.join(folder, 'nowhere'))
    for (const outside of ['../a', '/etc/hosts', 'out/hosts', 'nowhere', 'x/../../a']) {
      await expect(box.read(outside)).rejects.toMatchObject({ code: 'invalid_request' })
      await expect(box.write(outside, '')).rejects.toMatchObject({
        code: 'invalid_request',
      })
    }
    await expect(box.read('missing')).rejects.toMatchObject({ code: 'tool_failed' })
  })
})

it('refuses limits that are none', () => {
  expect(() => new LocalSandbox({ folder: '/', env, timeoutSeconds: 0 })).toThrow(
    'timeoutSeconds must be a number above 0, got 0.',
  )
})
