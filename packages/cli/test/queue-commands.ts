import { startOsmosis, type RunningCommand } from './osmosis.ts'

export const echo = 'rollouts/echo/main.ts'
export const listening = /Listening on (\S+)/

/** Starts a server of a queue, and resolves with its address as well. */
export async function startFront(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ command: RunningCommand; url: string }> {
  const command = startOsmosis(['serve', ...args, '--port', '0', '--no-trajectories'], env)
  const [, url = ''] = await command.printed(listening)
  return { command, url }
}

/** Starts a worker, and resolves when it takes rollouts. */
export async function startWorker(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<RunningCommand> {
  const command = startOsmosis(['worker', ...args], env)
  await command.printed(/Taking rollouts from/)
  return command
}
