import { spawn, type SpawnOptions } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

/** Programs that install packages. */
export const packageManagers = ['npm', 'pnpm'] as const

/** One of {@link packageManagers}. */
export type PackageManager = (typeof packageManagers)[number]

/**
 * The package manager of a folder: the one whose lockfile is there, else the one that runs this
 * command, else npm.
 */
export function packageManagerOf(folder: string, environment: NodeJS.ProcessEnv): PackageManager {
  if (existsSync(path.join(folder, 'pnpm-lock.yaml'))) return 'pnpm'
  if (existsSync(path.join(folder, 'package-lock.json'))) return 'npm'
  return environment['npm_config_user_agent']?.startsWith('pnpm/') ? 'pnpm' : 'npm'
}

/** Settings files that a workspace needs with pnpm, by name. */
export const pnpmFiles: ReadonlyMap<string, string> = new Map([
  [
    'pnpm-workspace.yaml',
    `# Their install scripts only verify the installation. The osmosis command depends on esbuild, the Google ADK on the others.
allowBuilds:
  esbuild: false
  '@google/genai': false
  protobufjs: false
`,
  ],
])

/** Installs the packages of a folder, and resolves with whether that succeeded. */
export async function install(manager: PackageManager, folder: string): Promise<boolean> {
  return run(manager, ['install'], folder)
}

/** Runs a program of the PATH, with its output on the screen; resolves with whether it succeeded. */
export async function run(
  program: string,
  args: readonly string[],
  folder: string,
): Promise<boolean> {
  const options: SpawnOptions = { cwd: folder, stdio: ['ignore', 2, 2] }
  // Windows runs npm.cmd and pnpm.cmd only in a shell. The arguments are constants and need no quotes.
  const child =
    process.platform === 'win32'
      ? spawn([program, ...args].join(' '), { ...options, shell: true })
      : spawn(program, args, options)
  return new Promise((resolve) => {
    child.once('error', () => resolve(false))
    child.once('close', (code) => resolve(code === 0))
  })
}
