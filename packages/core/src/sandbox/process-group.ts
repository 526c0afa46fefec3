import { type ChildProcess, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'

/** Options of {@link spawnInGroup}. */
export interface GroupOptions {
  readonly cwd?: string | undefined
  /** All variables that it gets. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Kills the group when aborted, such as `ctx.signal`. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Starts a program as the leader of a process group, which is killed when the program ends or the signal is aborted:
 * nothing that it started outlives it, unless it left the group. Its streams are pipes, which have to be read.
 *
 * @throws Error with code `EMFILE` when there is no file descriptor for the pipes; other failures may be events of the process
 */
export function spawnInGroup(
  program: string,
  args: readonly string[],
  { cwd, env, signal }: GroupOptions,
): ChildProcessWithoutNullStreams {
  const child = spawn(program, args, { cwd, env: { ...env }, detached: true, stdio: 'pipe' })
  if ((child.stdout as unknown) === undefined) {
    // Node.js makes no streams then, and emits the error later.
    child.once('error', () => {})
    throw Object.assign(new Error('no file descriptor is free'), { code: 'EMFILE' })
  }
  const kill = (): void => killGroup(child)
  const release = (): void => signal?.removeEventListener('abort', kill)
  child.once('exit', () => {
    release()
    kill()
  })
  // A program that could not be started has no exit.
  child.once('close', release)
  signal?.addEventListener('abort', kill, { once: true })
  if (signal?.aborted) kill()
  return child
}

/** Ends a process that {@link spawnInGroup} started, and all of its group. */
export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of them have ended.
  }
}
