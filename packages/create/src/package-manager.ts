import { spawn, type SpawnOptions } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** Programs that install packages. */
export const packageManagers = ['npm', 'pnpm', 'yarn', 'bun'] as const

/** One of {@link packageManagers}. */
export type PackageManager = (typeof packageManagers)[number]

const lockfiles: readonly (readonly [file: string, manager: PackageManager])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
  ['package-lock.json', 'npm'],
  ['npm-shrinkwrap.json', 'npm'],
]

/**
 * The package manager of a project: that of its `packageManager` field, else the one whose lockfile is there, or in a
 * folder above, as in a monorepo; else the one that runs this command, else npm.
 */
export function packageManagerOf(folder: string, environment: NodeJS.ProcessEnv): PackageManager {
  for (let above = path.resolve(folder); ; above = path.dirname(above)) {
    const place = above
    const found =
      named(packageManagerField(place)) ??
      lockfiles.find(([file]) => existsSync(path.join(place, file)))?.[1]
    if (found !== undefined) return found
    // A lockfile above the repository is of something else.
    if (above === path.dirname(above) || existsSync(path.join(above, '.git'))) break
  }
  return named(environment['npm_config_user_agent']) ?? 'npm'
}

/** The manager of `pnpm@12.0.0` or `pnpm/12.0.0 npm/? …`. */
function named(text: unknown): PackageManager | undefined {
  const [, name] = typeof text === 'string' ? (/^(\w+)[@/]/.exec(text) ?? []) : []
  return packageManagers.find((manager) => manager === name)
}

function packageManagerField(folder: string): unknown {
  try {
    const text = readFileSync(path.join(folder, 'package.json'), 'utf8')
    return (JSON.parse(text) as { packageManager?: unknown }).packageManager
  } catch {
    return undefined
  }
}

/**
 * Packages below the dependencies of a workspace whose install scripts need not run. That of esbuild only verifies the
 * installation; that of `@google/genai`, which Google ADK and Pi depend on, prints a word; that of protobufjs, below it, only
 * warns about version ranges.
 */
export const needlessInstallScripts = ['esbuild', '@google/genai', 'protobufjs'] as const

/** Settings files that a workspace needs, by package manager and name. */
export const settingsFiles: Readonly<Record<PackageManager, Readonly<Record<string, string>>>> = {
  npm: {},
  bun: {},
  // Its other linker has packages in archives, where the files of a package cannot be listed.
  yarn: { '.yarnrc.yml': 'nodeLinker: node-modules\n' },
  pnpm: {
    'pnpm-workspace.yaml': [
      '# Their install scripts only verify the installation. The osmosis command depends on esbuild, Google ADK and Pi on the others.',
      'allowBuilds:',
      ...needlessInstallScripts.map((name) => `  '${name}': false`),
      '',
    ].join('\n'),
  },
}

/** How a package manager adds a package for development. */
export const addForDevelopment: Readonly<Record<PackageManager, string>> = {
  npm: 'npm install --save-dev',
  // Otherwise it ends with an error, although everything is installed.
  pnpm: 'pnpm add --save-dev --allow-build=esbuild',
  yarn: 'yarn add --dev',
  bun: 'bun add --dev',
}

/** Installs the packages of a folder, and resolves with whether that succeeded. */
export async function install(manager: PackageManager, folder: string): Promise<boolean> {
  // Install scripts that it does not run are no failure: those of our packages only verify the installation.
  const lenient = manager === 'pnpm' ? ['--config.strictDepBuilds=false'] : []
  return run(manager, ['install', ...lenient], folder)
}

/** Runs a program of the PATH, with its output on the screen; resolves with whether it succeeded. */
export async function run(
  program: string,
  args: readonly string[],
  folder: string,
): Promise<boolean> {
  const options: SpawnOptions = { cwd: folder, stdio: ['ignore', 2, 2] }
  // Windows runs npm.cmd and the like only in a shell. The arguments are constants and need no quotes.
  const child =
    process.platform === 'win32'
      ? spawn([program, ...args].join(' '), { ...options, shell: true })
      : spawn(program, args, options)
  return new Promise((resolve) => {
    child.once('error', () => resolve(false))
    child.once('close', (code) => resolve(code === 0))
  })
}
