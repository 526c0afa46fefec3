import { abortOnInterrupt, interruptedExitCode } from '../interrupt.ts'
import { isWrongUse, wrongUseCode } from '../wrong-use.ts'
import { CommandOutput } from './command-output.ts'
import type { PlatformFlags } from './platform-flags.ts'
import { PlatformSession } from './platform-session.ts'

/** Runs a command of the platform to its end, and resolves with its exit code. */
export async function runPlatformCommand(
  { name, version, flags }: { name: string; version: string; flags: PlatformFlags },
  work: (session: PlatformSession) => Promise<number | void>,
): Promise<number> {
  const output = new CommandOutput({ command: name, version, json: flags.json ?? false })
  const interrupt = abortOnInterrupt()
  let session: PlatformSession | undefined
  try {
    session = await PlatformSession.open({ output, signal: interrupt.signal, flags, version })
    return (await work(session)) ?? 0
  } catch (error) {
    if (interrupt.signal.aborted) return interruptedExitCode
    output.fail(error)
    return isWrongUse(error) ? wrongUseCode : 1
  } finally {
    interrupt.release()
    await session?.close()
  }
}
