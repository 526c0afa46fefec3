#!/usr/bin/env node
import { readFileSync } from 'node:fs'

// The command is imported after the check: an older Node.js fails while it imports dependencies,
// before it could print the reason.
const needed = neededNode()
if (isOlder(process.versions.node, needed)) {
  process.stderr.write(
    `error: osmosis needs Node.js ${needed} or newer, but ${process.versions.node} runs it.\nInstall a newer one, e.g. from https://nodejs.org, and run the command again.\n`,
  )
  process.exitCode = 2
} else {
  await keepCompiledCode()
  const { main } = await import('./main.ts')
  const { exitDespiteThreads, ignoreBrokenPipe } = await import('@osmosis/server/execution')
  exitDespiteThreads()
  const { breakUpCommands } = await import('./command/github-commands.ts')
  const { environment } = await import('./command/command-context.ts')
  breakUpCommands(environment())
  // The command continues when the reader of its output has closed the pipe.
  ignoreBrokenPipe()
  // Programs that user code imports may read arguments of their own.
  const exitCode = await main(process.argv.splice(2))
  if (exitCode !== undefined) {
    process.exitCode = exitCode
    // User code may leave timers or sockets open, which would keep the process alive.
    setTimeout(() => process.exit(), 2000).unref()
  }
}

/** Keeps compiled code for the next command, and for the processes that this one starts. Loading then takes half of the time. */
async function keepCompiledCode(): Promise<void> {
  // An older Node.js lacks these exports.
  const { enableCompileCache, getCompileCacheDir } = await import('node:module')
  enableCompileCache()
  const folder = getCompileCacheDir()
  if (folder !== undefined) process.env['NODE_COMPILE_CACHE'] ??= folder // oxlint-disable-line node/no-process-env
}

/** The version in the manifest's `engines.node`, which reads `>=22.19`. */
function neededNode(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { engines: { node: string } }).engines.node.replace('>=', '')
}

function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [leastMajor = 0, leastMinor = 0] = than.split('.').map(Number)
  return major < leastMajor || (major === leastMajor && minor < leastMinor)
}
