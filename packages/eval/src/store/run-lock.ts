import { parseJson } from '@osmosis/core/http'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'

import { fileMode, folderMode, storageError } from './run-files.ts'

/** A process that writes to a run. */
export interface RunWriter {
  readonly pid: number
  readonly host: string
  /** When the process started. ISO 8601, UTC. */
  readonly started_at: string
}

interface LockText extends RunWriter {
  /** Unique: a process may lock the run twice, one after the other. */
  readonly id: string
  /** See {@link processStart}; null where the system does not report it. */
  readonly process_start: string | null
}

/** The exclusive right to write to a run. */
export interface RunLock {
  release(): void
}

/** How long a lock can have no text, or a takeover can last, while its process runs. Milliseconds. */
const patienceMs = 10_000

/**
 * Locks the run at `location`. The lock file is outside of the run's folder, so that the folder can be
 * renamed while it is locked. The lock of a process that has exited is taken over.
 *
 * @param breakLock - take over the lock of another process
 * @throws OsmosisError with code `run_locked` when another process has the lock, `storage_error` when it
 * cannot be written
 */
export async function lockRun(location: string, breakLock = false): Promise<RunLock> {
  const file = lockFile(location)
  await makeLockFolder(path.dirname(file))
  const own: LockText = {
    id: randomUUID(),
    pid: process.pid,
    host: hostname(),
    started_at: new Date(Date.now() - process.uptime() * 1000).toISOString(),
    process_start: processStart(process.pid) ?? null,
  }
  const text = `${JSON.stringify(own)}\n`
  let mayBreak = breakLock
  while (!(await tryCreate(file, text))) {
    if (!mayBreak) assertStale(file, location)
    // Two processes that find the same stale lock must not remove each other's new lock.
    const guard = `${file}.takeover`
    if (await tryCreate(guard, text)) {
      try {
        if (!mayBreak) assertStale(file, location)
        rmSync(file, { force: true })
        mayBreak = false
      } finally {
        rmSync(guard, { force: true })
      }
    } else if (ageOf(guard) > patienceMs) {
      rmSync(guard, { force: true })
    } else {
      await sleep(20)
    }
  }
  return {
    release: () => {
      // Another process may have taken it over.
      if (textOf(file) === text) rmSync(file, { force: true })
    },
  }
}

/** The process that writes to the run; null when none does. A process on another host may have exited. */
export function writerOf(location: string): RunWriter | null {
  const lock = parseJson(textOf(lockFile(location))) as LockText | undefined
  if (lock === undefined || hasExited(lock)) return null
  const { pid, host, started_at } = lock
  return { pid, host, started_at }
}

function lockFile(location: string): string {
  return path.join(lockFolder(path.dirname(location)), `${path.basename(location)}${ending}`)
}

const ending = '.lock'

/** The folder of the locks of the runs in a folder. */
export function lockFolder(outputRoot: string): string {
  return path.join(outputRoot, '.locks')
}

/** The name of the run to which a lock file belongs. */
export function lockName(file: string): string {
  return path.basename(file, ending)
}

async function makeLockFolder(folder: string): Promise<void> {
  try {
    mkdirSync(folder, { recursive: true, mode: folderMode })
  } catch (cause) {
    throw await storageError(folder, cause)
  }
}

/** False when the file already exists. */
async function tryCreate(file: string, text: string): Promise<boolean> {
  let isMade = false
  try {
    const descriptor = openSync(file, 'wx', fileMode)
    isMade = true
    try {
      writeFileSync(descriptor, text)
    } finally {
      closeSync(descriptor)
    }
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
    if (isMade) rmSync(file, { force: true })
    throw await storageError(file, cause)
  }
}

/** Returns when no process holds the lock. */
function assertStale(file: string, location: string): void {
  const text = textOf(file)
  const lock = parseJson(text) as LockText | undefined
  // A lock without text was just created, unless its process was killed at that moment.
  const isStale = lock === undefined ? ageOf(file) > patienceMs : hasExited(lock)
  if (text === undefined || isStale) return
  const isRemote = lock !== undefined && lock.host !== hostname()
  const holder =
    lock === undefined
      ? 'Another process has just taken'
      : `Process ${lock.pid}${isRemote ? ` on host ${lock.host}` : ''}, started at ${lock.started_at}, writes to`
  const advice = isRemote
    ? `This host cannot tell whether it is still running; if it is not, pass --break-lock.`
    : 'Wait until it has ended, or pass another --name.'
  throw new OsmosisError('run_locked', `${holder} the run ${location}. ${advice}`)
}

function hasExited(lock: LockText): boolean {
  if (lock.host !== hostname()) return false
  const start = processStart(lock.pid)
  if (start === undefined) return true
  return start !== null && lock.process_start !== null && start !== lock.process_start
}

/** Undefined when there is no such file. */
function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Milliseconds; 0 for a missing file. */
function ageOf(file: string): number {
  const modified = statSync(file, { throwIfNoEntry: false })?.mtimeMs
  // After the clock was set back a file may be from the future.
  return modified === undefined ? 0 : Math.abs(Date.now() - modified)
}

/**
 * When a process started, as a text that differs from that of any other process with the same id: ids are
 * reused. Undefined when there is no such process, null where the system does not report it.
 */
function processStart(pid: number): string | null | undefined {
  if (!isAlive(pid)) return undefined
  if (process.platform === 'linux') return linuxStart(pid)
  return process.platform === 'win32' ? null : reportedStart(pid)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // It may belong to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The id of the boot, and clock ticks since then. */
function linuxStart(pid: number): string | null | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the name of the program, which may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A zombie: it has exited, but its parent has not read the exit code.
    if (fields[0] === 'Z') return undefined
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot}:${fields[19]}`
  } catch {
    return null
  }
}

function reportedStart(pid: number): string | null {
  try {
    // The user's language and time zone would give different texts for the same time.
    const env = { LC_ALL: 'C', TZ: 'UTC' }
    const output = execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], { env })
    return output.toString().trim() || null
  } catch {
    return null
  }
}
