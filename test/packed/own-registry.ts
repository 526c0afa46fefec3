import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { startRegistry } from './registry.ts'
import { root, temporaryFolder, withoutScriptVariables, type PackedPackage } from './workspace.ts'

/** A registry with the packed packages, and commands that install from it as a user of the clone does. */
export interface OwnRegistry extends AsyncDisposable {
  /** Variables with which npm and pnpm install from it. */
  readonly environment: NodeJS.ProcessEnv
  /** Runs words of a command line in a folder, and resolves with what it printed on stdout. */
  run(folder: string, command: string, more?: NodeJS.ProcessEnv): Promise<string>
  /** The same, with what the command wrote to stderr behind it. */
  runWithErrors(folder: string, command: string): Promise<string>
}

/** Starts a registry with these packages, and sets npm up for it as docs/get-started/from-a-clone.md says. The caller closes it. */
export async function startOwnRegistry(packed: readonly PackedPackage[]): Promise<OwnRegistry> {
  const registry = await startRegistry(packed)
  const settings = await readFile(path.join(homedir(), '.npmrc'), 'utf8').catch(() => '')
  const file = path.join(await temporaryFolder(), 'npmrc')
  await writeFile(file, `${settings}\nyes=true\n`, { mode: 0o600 })
  const environment = { ...withoutScriptVariables(), npm_config_userconfig: file }
  const ran = (folder: string, command: string, more: NodeJS.ProcessEnv = {}) => {
    const [program = '', ...args] = command.split(' ')
    return promisify(execFile)(program, args, { cwd: folder, env: { ...environment, ...more } })
  }
  const run: OwnRegistry['run'] = async (...order) => (await ran(...order)).stdout
  const runWithErrors: OwnRegistry['runWithErrors'] = async (...order) => {
    const { stdout, stderr } = await ran(...order)
    return stdout + stderr
  }
  const page = 'docs/get-started/from-a-clone.md'
  const [command] = /^npm config set .*$/m.exec(await readFile(path.join(root, page), 'utf8')) ?? []
  if (command === undefined) {
    throw new Error(`${page} must have a line that begins with "npm config set", and has none.`)
  }
  await run(root, command.replace('http://127.0.0.1:4873/', registry.url))
  return {
    environment,
    run,
    runWithErrors,
    [Symbol.asyncDispose]: () => registry[Symbol.asyncDispose](),
  }
}
