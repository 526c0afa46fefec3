import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { OsmosisError } from '@osmosis/core'
import { FolderLock, ownerOf, type FolderLockOptions } from '@osmosis/protocol/files'
import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { smallDisk, withSmallDisk } from '../../../test/kit/starved/small-disk.ts'

const options: FolderLockOptions = {
  isTemporary: true,
  inUse: (owner) => new OsmosisError('run_locked', `in use by ${owner?.pid}`),
  takenOver: (owner) => new OsmosisError('storage_error', `lost to ${owner?.pid}`),
  deadAfterMs: 30,
}

async function newPlace(): Promise<string> {
  return path.join(await temporaryFolder(), 'locks', 'one')
}

it('a temporary folder stays lost when the next owner has released it, or it was removed', async () => {
  const folder = await newPlace()
  const first = await FolderLock.acquire(folder, options)
  const second = await FolderLock.acquire(folder, { ...options, namespace: 'another host' })
  await second.release()
  expect(() => first.assertHeld()).toThrow('lost to')
  expect(first.isLost).toBe(true)
  await first.release()
  const third = await FolderLock.acquire(folder, options)
  await rm(path.dirname(folder), { recursive: true })
  expect(() => third.assertHeld()).toThrow('lost to')
  await third.release()
})

it('a file that a killed process left empty is taken over after a while', async () => {
  const folder = await newPlace()
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'owner-00000001.lock'), '')
  expect(ownerOf(folder)).toBeUndefined()
  await (await FolderLock.acquire(folder, options)).release()
  expect(await readdir(path.dirname(folder))).toEqual([])
})

withSmallDisk.it(
  'a temporary folder cannot be locked on a full disk, and can when there is space',
  async () => {
    const disk = smallDisk()
    disk.fill()
    const folder = path.join(disk.folder, 'locks', 'one')
    await expect(FolderLock.acquire(folder, options)).rejects.toMatchObject({ code: 'ENOSPC' })
    disk.empty()
    await (await FolderLock.acquire(folder, options)).release()
  },
)

withSmallDisk.it.each(['ENOSPC', 'EROFS'])(
  'a folder whose disk answers %s has no owner who may write, and one as soon as it accepts a file',
  async (code) => {
    const disk = smallDisk()
    const { folder } = disk
    const mount = (...args: string[]): void => {
      execFileSync('mount', [...args, folder])
    }
    const isFull = code === 'ENOSPC'
    if (isFull) {
      disk.fill()
      mount('-o', 'remount,nr_inodes=2')
    } else mount('-o', 'remount,ro')
    const place = { ...options, isTemporary: false }
    const locks = [
      await FolderLock.acquire(folder, place),
      await FolderLock.acquire(folder, { ...place, namespace: 'another host' }),
    ]
    for (const lock of locks) {
      expect(() => lock.assertHeld()).toThrow(code)
      expect(lock.isLost).toBe(false)
    }
    if (isFull) disk.empty()
    mount('-o', 'remount,rw,nr_inodes=100')
    const held = locks.filter((lock) => !lock.isLost)
    expect(held).toHaveLength(1)
    expect(() => held[0]?.assertHeld()).not.toThrow()
    for (const lock of locks) await lock.release()
  },
)

it.each([
  ['many processes take it, release it and are killed', [], 16],
  ['processes on several hosts take and release it', ['a', 'b', 'c', 'd'], 40],
])('a lock has never two owners while %s', { timeout: 60_000 }, async (_, namespaces, releases) => {
  const folder = await newPlace()
  const account = path.join(await temporaryFolder(), 'account')
  await writeFile(account, '')
  const script = fileURLToPath(new URL('locking-process.ts', import.meta.url))
  const competitors = [0, 1, 2, 3].map(async (at) => {
    const args = [script, folder, account, ...namespaces.slice(at, at + 1)]
    const child = spawn(process.execPath, args, { stdio: 'inherit' })
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child, 'exit')
  })
  await Promise.all(competitors)
  const lines = (await readFile(account, 'utf8')).trim().split('\n')
  expect(lines).not.toContain('two owners')
  expect(lines.filter((line) => line === 'released')).toHaveLength(releases)
  await (await FolderLock.acquire(folder, options)).release()
  expect(await readdir(path.dirname(folder))).toEqual([])
})
