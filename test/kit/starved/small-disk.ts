import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { onTestFinished } from 'vitest'

import { onlyIf } from '../with-programs.ts'

/** `it` and `describe` of vitest for tests that call {@link smallDisk}. */
export const withSmallDisk = onlyIf(canMount(), 'a user who may mount a tmpfs')

/** A disk of its own. */
export interface SmallDisk {
  readonly folder: string
  /** Leaves this much free. KiB */
  fill(free?: number): void
  empty(): void
  /** Makes it empty, and large. */
  enlarge(): void
}

/** Mounts a disk of this size until the test has finished. KiB */
export function smallDisk(size = 512): SmallDisk {
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-disk-'))
  mount(folder, size)
  // Processes that are about to end may still use it.
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', folder])
    rmdirSync(folder)
  })
  const filler = path.join(folder, 'filler')
  const empty = (): void => rmSync(filler, { force: true })
  return {
    folder,
    empty,
    enlarge() {
      empty()
      execFileSync('mount', ['-o', 'remount,size=64m', folder])
    },
    fill(free = 0) {
      empty()
      if (free > 0) fillWith(path.join(folder, 'room'), free)
      fillWith(filler, size)
      rmSync(path.join(folder, 'room'), { force: true })
    },
  }
}

/** Writes a file of this size, or as much as fits. */
function fillWith(file: string, kilobytes: number): void {
  const descriptor = openSync(file, 'w')
  try {
    for (let written = 0; written < kilobytes; written += 4) {
      writeSync(descriptor, Buffer.alloc(4096))
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(descriptor)
  }
}

function mount(folder: string, size: number): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}k`, 'tmpfs', folder])
}

function canMount(): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-disk-'))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', folder])
  if (status === 0) spawnSync('umount', [folder])
  rmdirSync(folder)
  return status === 0
}
