import { open, type FileHandle } from 'node:fs/promises'

import { onTestFinished, vi } from 'vitest'

/** The disk of this process, whose writes of open files fail or wait as long as a test says so. */
export interface FailingDisk {
  /** Every write fails: nothing is left. */
  isFull: boolean
  /** How many of the next writes to the disk fail. */
  losses: number
  /** Every write of a folder to the disk fails. */
  losesFolders: boolean
  /** Files that are written meanwhile fail when they are closed. */
  failsToClose: boolean
  /** Writes to the disk that wait, or did. */
  waiting: number
  /** Writes to the disk wait for the end of this. */
  hold(): Disposable
}

/** Puts it in front of open files until the test has finished. */
export async function failingDisk(): Promise<FailingDisk> {
  let held: Promise<void> | undefined
  const disk: FailingDisk = {
    isFull: false,
    losses: 0,
    losesFolders: false,
    failsToClose: false,
    waiting: 0,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return {
        [Symbol.dispose]() {
          held = undefined
          resolve()
        },
      }
    },
  }
  const handle = await open(import.meta.filename)
  await handle.close()
  const operations = Object.getPrototypeOf(handle) as FileHandle
  // oxlint-disable-next-line typescript/unbound-method -- called with its handle
  const { writeFile, datasync, sync } = operations
  const spies = [
    vi.spyOn(operations, 'writeFile').mockImplementation(async function (this: FileHandle, data) {
      if (disk.isFull) throw failing('ENOSPC')
      if (disk.failsToClose) {
        const close = this.close.bind(this)
        this.close = async () => {
          await close()
          throw failing('EIO')
        }
      }
      await writeFile.call(this, data)
    }),
    vi.spyOn(operations, 'datasync').mockImplementation(async function (this: FileHandle) {
      if (held !== undefined) {
        disk.waiting += 1
        await held
      }
      if (disk.losses > 0) {
        disk.losses -= 1
        throw failing('EIO')
      }
      await datasync.call(this)
    }),
    vi.spyOn(operations, 'sync').mockImplementation(async function (this: FileHandle) {
      if (disk.losesFolders) throw failing('EIO')
      await sync.call(this)
    }),
  ]
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return disk
}

function failing(code: string): Error {
  return Object.assign(new Error(`${code}: the disk fails`), { code })
}
