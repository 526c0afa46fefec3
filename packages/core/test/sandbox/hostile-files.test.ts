import { execFileSync } from 'node:child_process'
import { closeSync, globSync, openSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { LocalSandbox } from '@osmosis/core/sandbox'
import { expect, onTestFinished } from 'vitest'

import { onlyIf } from '../../../../test/kit/index.ts'

const { describe, it } = onlyIf(process.platform === 'linux', 'Linux')
const isRoot = process.getuid?.() === 0

/** The folder beside a sandbox. */
const outsideOf = new WeakMap<LocalSandbox, string>()

/** A sandbox in which the code of a model has run `line`; beside it is a secret. */
async function sandboxAfter(line: string, maxBytes?: number): Promise<LocalSandbox> {
  const parent = await mkdtemp(path.join(tmpdir(), 'hostile-'))
  const folder = path.join(parent, 'box')
  execFileSync('/bin/sh', ['-c', `mkdir box; printf secret > secret; cd box; ${line}`], {
    cwd: parent,
  })
  const limit = maxBytes === undefined ? {} : { maxBytes }
  const box = new LocalSandbox({ folder, env: { PATH: process.env['PATH'] }, ...limit })
  outsideOf.set(box, path.join(parent, 'outside'))
  onTestFinished(async () => {
    await box.close()
    // A test that has failed leaves threads that wait for the other end.
    const found = globSync('**', { cwd: parent, withFileTypes: true })
    const fifos = found.filter((file) => file.isFIFO())
    const ends = fifos.map(({ parentPath, name }) => openSync(path.join(parentPath, name), 'r+'))
    await rm(parent, { recursive: true })
    for (const end of ends) closeSync(end)
  })
  return box
}

const socket = `${JSON.stringify(process.execPath)} -e 'require("net").createServer().listen("x", () => process.kill(process.pid, "SIGKILL"))' || true`

/** What the code of a model did, so that `x` cannot be opened, and the code of the error. */
const notRegular: readonly (readonly [what: string, line: string, code: string])[] = [
  ['a FIFO', 'mkfifo x', 'tool_failed'],
  ['a link to a FIFO', 'mkfifo f; ln -s f x', 'tool_failed'],
  ['a hard link to a FIFO', 'mkfifo f; ln f x', 'tool_failed'],
  ['a FIFO below a link', 'mkdir d; mkfifo d/x; ln -s d l; ln -s l/x x', 'tool_failed'],
  ['a FIFO without permissions', 'mkfifo x; chmod 000 x', 'tool_failed'],
  ['a socket', socket, 'tool_failed'],
  ['a folder', 'mkdir x', 'tool_failed'],
  ['a folder without permissions', 'mkdir x; chmod 000 x', 'tool_failed'],
  ['a link to /dev/zero', 'ln -s /dev/zero x', 'tool_failed'],
  ['a link to a link to /dev/random', 'ln -s /dev/random y; ln -s y x', 'tool_failed'],
  ['a link to a terminal', 'ln -s /dev/tty x', 'tool_failed'],
  ['a link to a FIFO elsewhere', 'mkfifo ../f; ln -s ../f x', 'tool_failed'],
  ['a link to a file elsewhere', 'ln -s ../secret x', 'invalid_request'],
  ['a link to itself', 'ln -s x x', 'invalid_request'],
  ['a link to nothing', 'ln -s ../nothing x', 'invalid_request'],
  ['a link to a file of the kernel', 'ln -s /proc/self/status x', 'invalid_request'],
  ['a link to the memory of the process', 'ln -s /proc/self/mem x', 'invalid_request'],
]
const asRoot: typeof notRegular = [
  ['a character device', 'mknod x c 1 5', 'tool_failed'],
  ['a device without a driver', 'mknod x c 240 7', 'tool_failed'],
]

describe('a FIFO in the sandbox does not block the process', { timeout: 20_000 }, () => {
  it.each([...notRegular, ...(isRoot ? asRoot : [])])('nor does %s', async (_, line, code) => {
    const box = await sandboxAfter(line)
    // More than libuv has threads.
    for (let time = 0; time < 6; time += 1) {
      await expect(box.read('x')).rejects.toMatchObject({ code })
      await expect(box.write('x', 'y')).rejects.toMatchObject({ code })
    }
    await box.write('other', 'works')
    expect(Buffer.from(await box.read('other')).toString()).toBe('works')
  })

  it('nor does a FIFO whose other end is open, which keeps what is in it', async () => {
    const box = await sandboxAfter('mkfifo x')
    // Processes of a command end with it, so it waits for the one that reads.
    const talk = 'sleep 1; printf said >&3; exec 3>&-; wait'
    const other = box.exec(`cat x > got & exec 3> x; : > open; ${talk}`)
    await expect.poll(async () => (await box.exec('test -e open')).exitCode).toBe(0)
    await expect(box.read('x')).rejects.toThrow('x is not a regular file.')
    await expect(box.write('x', 'written')).rejects.toThrow('x is not a regular file.')
    await other
    expect((await box.exec('cat got')).stdout).toBe('said')
  })

  it('nor as a folder of a file or of a command', async () => {
    const box = await sandboxAfter('mkfifo f')
    await expect(box.read('f/x')).rejects.toMatchObject({ code: 'tool_failed' })
    await expect(box.write('f/x', '')).rejects.toMatchObject({ code: 'tool_failed' })
    await expect(box.exec('true', { cwd: 'f' })).rejects.toMatchObject({ code: 'tool_failed' })
  })
})

describe('reads are bounded', () => {
  const large: readonly (readonly [what: string, line: string])[] = [
    ['a sparse file', 'truncate -s 1T x'],
    ['a link to a sparse file', 'truncate -s 1T y; ln -s y x'],
    ['a hard link to a sparse file', 'truncate -s 1T y; ln y x'],
    ['a file with holes and an end', 'truncate -s 1G x; echo >> x'],
    ['a file that is one byte too long', 'head -c 1001 /dev/zero > x'],
  ]
  it.each(large)('%s is an error', async (_, line) => {
    const box = await sandboxAfter(line, 1000)
    await expect(box.read('x')).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringMatching(/^x has more than 1000 bytes, the limit of maxBytes/),
    })
  })

  it('by 64 MiB, or what the call says', async () => {
    const box = await sandboxAfter('truncate -s 67108864 most; truncate -s 67108865 more')
    expect(await box.read('most')).toHaveLength(64 * 1024 ** 2)
    await expect(box.read('more')).rejects.toThrow('more than 67108864 bytes')
    await expect(box.read('most', { maxBytes: 9 })).rejects.toThrow('more than 9 bytes')
    await expect(box.read('most', { maxBytes: 0 })).rejects.toMatchObject({
      code: 'invalid_config',
    })
  })

  it('a file that has more than its size, as one that grows', async () => {
    const box = new LocalSandbox({ folder: '/proc/self', env: {}, maxBytes: 10 })
    expect((await stat('/proc/self/status')).size).toBe(0)
    await expect(box.read('status')).rejects.toThrow('status has more than 10 bytes')
    expect((await box.read('status', { maxBytes: 100_000 })).length).toBeGreaterThan(10)
  })
})

it('a link that changes while a file is opened never leads outside', { tags: 'slow' }, async () => {
  const box = await sandboxAfter('mkdir -p real; printf inside > real/secret')
  const swapping =
    'while :; do ln -sfn real d; ln -sfn .. d; rm -f d; mkdir d; cp real/secret d; rm -r d; done'
  const swapper = box.exec(swapping, { timeoutSeconds: 60 })
  const seen = new Set<string>()
  for (let time = 0; time < 400; time += 1) {
    const text = await box.read('d/secret').then(
      (bytes) => Buffer.from(bytes).toString(),
      (error: { code: string }) => error.code,
    )
    seen.add(text)
    await box.write('d/secret', 'inside').catch(() => {})
  }
  await box.close()
  await swapper
  expect(seen).toContain('inside')
  expect(seen).not.toContain('secret')
})

/** How `x` becomes a link that leads outside while `x/new/file`, or `x` itself, is written. */
const swaps: readonly (readonly [what: string, line: string, file: string])[] = [
  ['a folder', 'mkdir x; rm -rf x; ln -s ../outside x; rm -f x', 'x/file'],
  ['the parent of a new folder', 'mkdir x; rm -rf x; ln -s ../outside x; rm -f x', 'x/new/file'],
  [
    'a folder in the middle',
    'mkdir -p a/x; rm -rf a/x; ln -s ../../outside a/x; rm -f a/x',
    'a/x/b/file',
  ],
  ['the file', 'ln -s ../outside/file x; rm -f x', 'x'],
  ['a link inside', 'ln -sfn inside x; ln -sfn ../outside x', 'x/file'],
  ['a link to a link', 'ln -sfn inside y; ln -sfn y x; ln -sfn ../outside y', 'x/new/file'],
]

it.each(swaps)(
  'nothing is created outside when %s becomes a link in a write',
  async (_, line, file) => {
    const box = await sandboxAfter('mkdir ../outside inside')
    const swapper = box.exec(`while :; do ${line}; done 2> /dev/null`, { timeoutSeconds: 60 })
    const outcomes = new Set<string>()
    // Until a write has come between two changes, which a busy machine does rarely.
    for (let time = 0; time < 100 || (time < 30_000 && !outcomes.has('written')); time += 1) {
      outcomes.add(
        await box.write(file, 'y').then(
          () => 'written',
          ({ code }: { code: string }) => code,
        ),
      )
    }
    await box.close()
    await swapper
    expect(await readdir(outsideOf.get(box) ?? '')).toEqual([])
    expect(
      [...outcomes].filter((one) => !/^(?:written|tool_failed|invalid_request)$/.test(one)),
    ).toEqual([])
    expect(outcomes).toContain('written')
  },
)

it.each(['a\nb', '-rf', ' ', 'ü\u0301', '$(id)', '*', '\u007F'.repeat(80)])(
  'a file with the name %j is a file like others',
  async (name) => {
    const box = await sandboxAfter(':')
    await box.write(`d/${name}`, name)
    expect(Buffer.from(await box.read(`d/${name}`)).toString()).toBe(name)
    expect((await box.exec(['cat', name], { cwd: 'd' })).exitCode).toBe(name === '-rf' ? 1 : 0)
  },
)

it('a name that no file can have is an error', async () => {
  const box = await sandboxAfter(':')
  for (const name of ['a\0b', 'a'.repeat(300), 'a/'.repeat(5000), '']) {
    await expect(box.read(name)).rejects.toMatchObject({ code: 'tool_failed' })
    await expect(box.write(name, '')).rejects.toMatchObject({ code: 'tool_failed' })
  }
})

it('a write replaces what was there, and nothing else', async () => {
  const box = await sandboxAfter('printf long-before > x; chmod 640 x; ln -s x y')
  await box.write('y', 'new')
  expect((await box.exec('cat x; stat -c %a x; readlink y')).stdout).toBe('new640\nx\n')
})
