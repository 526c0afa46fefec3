import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { onlyIf, temporaryFolder } from '../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

import { acceptanceOf, foundAfterKill, openOutbox } from './outbox-of-test.ts'
import { startChild } from './start-child.ts'

const server = fileURLToPath(new URL('child-server.ts', import.meta.url))

/** A server as one container has it: with a network, and so with local sockets, of its own. */
function startInNewNetwork(outboxDir: string): {
  readonly listening: Promise<unknown>
  readonly log: Promise<string>
  readonly end: () => Promise<void>
} {
  const up = 'ip link set lo up && exec "$0" "$1"'
  const child = spawn('unshare', ['--net', 'sh', '-c', up, process.execPath, server], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, OUTBOX_DIR: outboxDir },
  })
  const exit = once(child, 'exit')
  const end = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exit
  }
  onTestFinished(end)
  const listening = Promise.race([once(child.stdout, 'data').then(() => 'listens'), exit])
  return { listening, log: text(child.stderr), end }
}

const canSeparate = spawnSync('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up']).status === 0

onlyIf(canSeparate, 'root, unshare and ip').it(
  'gives the outbox to one of two containers, and to the other one after the first was killed',
  async () => {
    const outboxDir = await temporaryFolder()
    const first = startInNewNetwork(outboxDir)
    expect(await first.listening).toBe('listens')
    const second = startInNewNetwork(outboxDir)
    expect(await second.listening).toStrictEqual([1, null])
    expect(await second.log).toMatch(/Another server \(process \d+ on host .+\) uses the folder/)
    await first.end()
    const third = startInNewNetwork(outboxDir)
    expect(await third.listening).toBe('listens')
  },
  60_000,
)

it('ends with exit code 1 when another server has taken over its outbox', async () => {
  const outboxDir = await temporaryFolder()
  await using child = await startChild({ outboxDir })
  await using _ = await openOutbox(outboxDir, { namespace: 'another container', deadAfterMs: 30 })
  expect((await child.post()).status).toBe(503)
  expect(await child.exit).toStrictEqual([1, null])
})

const canMount =
  spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0

onlyIf(canMount, 'root and mount').it(
  'starts on a full disk, and locks the folder when there is space',
  async () => {
    const disk = await temporaryFolder()
    const mount = (...args: string[]): void => {
      expect(spawnSync('mount', [...args, disk]).status).toBe(0)
    }
    mount('-t', 'tmpfs', '-o', 'nr_inodes=2', 'none')
    onTestFinished(() => void spawnSync('umount', ['--lazy', disk]))
    const folder = path.join(disk, 'outbox')
    await using first = await openOutbox(folder)
    await expect(first.outbox.accept(acceptanceOf('full'))).rejects.toThrow('ENOSPC')
    mount('-o', 'remount,nr_inodes=100')
    await first.outbox.accept(acceptanceOf('stored'))
    expect(readdirSync(folder)).toContain('owner-00000001.lock')
    expect(await foundAfterKill(folder)).toStrictEqual({ stored: ['completion interrupted'] })
  },
)
