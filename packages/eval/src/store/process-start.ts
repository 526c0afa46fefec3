import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * When a process began, as a text that no other process with its id ever has: ids are used again.
 * Undefined when there is no such process, null where the system does not say.
 */
export function processStart(pid: number): string | null | undefined {
  if (!isAlive(pid)) return undefined
  if (process.platform === 'linux') return linuxStart(pid)
  return process.platform === 'win32' ? null : reportedStart(pid)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // It may be somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Clock ticks since the system started, and which start that was. */
function linuxStart(pid: number): string | null | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the name of the program, which may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A process that has ended and that nobody has asked for its exit code yet.
    if (fields[0] === 'Z') return undefined
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot}:${fields[19]}`
  } catch {
    return null
  }
}

function reportedStart(pid: number): string | null {
  try {
    // Words and time zone of the user would make two texts of one time.
    const env = { LC_ALL: 'C', TZ: 'UTC' }
    const output = execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], { env })
    return output.toString().trim() || null
  } catch {
    return null
  }
}
