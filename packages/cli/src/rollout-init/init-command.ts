import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import {
  askFramework,
  extendedManifest,
  failingAttempt,
  frameworkNames,
  frameworks,
  install,
  packageManagerOf,
  rolloutFiles,
  rolloutNameProblem,
  ScaffoldError,
  workspaceFiles,
  writeNewFiles,
  type Framework,
} from '@osmosis/create'
import { findWorkspaceRoot } from '@osmosis/eval'

import { readEnvironment } from '../environment.ts'
import { missingOptions } from './fitting-tsconfig.ts'
import type { InitFlags } from './init-options.ts'
import { fromHere, isInteractive, printError, workingFolder } from '../surroundings.ts'

/** What a rollout needs of its workspace, and gets when it is not there. */
const needed = ['.gitignore', 'osmosis.toml', 'tsconfig.json']

/**
 * Adds a rollout to the workspace of the working folder. Resolves with the exit code: 0, 1 when its
 * packages could not be installed, 2 for wrong use and for what would have been overwritten.
 */
export async function initCommand(name: string, flags: InitFlags): Promise<number> {
  try {
    return await init(name, flags)
  } catch (error) {
    if (!(error instanceof ScaffoldError)) throw error
    say(`error: ${error.message}`)
    return 2
  }
}

async function init(name: string, flags: InitFlags): Promise<number> {
  const problem = rolloutNameProblem(name)
  if (problem !== undefined) throw new ScaffoldError(problem)
  const root = await workspaceRoot()
  const framework = flags.framework ?? (await chosenFramework(flags))
  const manifestFile = path.join(root, 'package.json')
  const manifest = extendedManifest(await readFile(manifestFile, 'utf8'), framework)
  const common = workspaceFiles({ folder: path.basename(root), rollout: name })
  const missing = needed.filter((file) => !existsSync(path.join(root, file)))
  await writeNewFiles(
    root,
    new Map([
      ...rolloutFiles(name, framework),
      ...missing.map((file) => [file, common.get(file) ?? ''] as const),
    ]),
  )
  if (manifest.added.length > 0) await writeFile(manifestFile, manifest.text)
  say(`Added the rollout ${name} (${frameworks[framework].title}) to ${root}.`)
  if (manifest.added.length > 0) say(`Added to package.json: ${manifest.added.join(', ')}`)
  const unfit = await missingOptions(path.join(root, 'tsconfig.json'))
  if (unfit.length > 0) {
    say(`warning: tsconfig.json does not fit the rollout. Set in its compilerOptions:`)
    for (const line of unfit) say(`  ${line}`)
  }

  const manager = flags.packageManager ?? packageManagerOf(root, readEnvironment())
  const installs = manifest.added.length > 0
  if (installs && flags.install) {
    say(`Installing with ${manager} …`)
    if (!(await install(manager, root))) {
      say(`error: ${manager} install failed. Everything else is done: repeat it in ${root}.`)
      return 1
    }
  }
  // An osmosis.toml that was there already names policies that know nothing of this rollout.
  const policy = missing.includes('osmosis.toml') ? '' : ` --policy policies/${name}.ts`
  const steps = [
    ...(path.relative(workingFolder(), root) === ''
      ? []
      : [`cd ${path.relative(workingFolder(), root)}`]),
    ...(installs && !flags.install ? [`${manager} install`] : []),
    `npx osmosis eval run configs/eval/${name}.toml${policy}`,
    `npx osmosis eval show latest ${failingAttempt}`,
  ]
  say(`\nNext:\n${steps.map((step) => `  ${step}\n`).join('')}`)
  return 0
}

/** The workspace here, else the nearest folder with a package.json: it becomes one. */
async function workspaceRoot(): Promise<string> {
  const workspace = await findWorkspaceRoot(fromHere('osmosis.toml'))
  if (workspace !== undefined && existsSync(path.join(workspace, 'package.json'))) return workspace
  for (let folder = workingFolder(); ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder
    if (folder === path.dirname(folder)) break
  }
  throw new ScaffoldError(
    'There is no package.json here or above, which a rollout needs for its packages. Start a workspace: npm create @osmosis@latest',
  )
}

async function chosenFramework({ yes }: InitFlags): Promise<Framework> {
  if (yes === true) return frameworkNames[0]
  if (isInteractive()) return askFramework()
  throw new ScaffoldError(
    `Nobody can be asked here: pass --framework ${frameworkNames.join(' | ')}, or --yes for ${frameworkNames[0]}.`,
  )
}

function say(line: string): void {
  printError(`${line}\n`)
}
