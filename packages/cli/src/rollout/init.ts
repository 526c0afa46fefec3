import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

import { Option, type Command } from '@commander-js/extra-typings'
import {
  askFramework,
  existingRolloutFiles,
  extendedManifest,
  failingAttempt,
  frameworkNames,
  frameworks,
  install,
  packageManagerOf,
  packageManagers,
  rolloutFiles,
  rolloutNameProblem,
  ScaffoldError,
  workspaceFiles,
  writeNewFiles,
  type Framework,
} from '@osmosis/create'

import {
  resolvePath,
  isInteractive,
  printError,
  workingFolder,
} from '../command/command-context.ts'
import { readEnvironment } from '../command/environment.ts'
import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'
import { continued, quoted } from '../command/output/shown-command.ts'
import { printMessage } from '../command/terminal-text.ts'
import { onlyFramework } from '../inputs/nearest-project.ts'

function declareInit(rollouts: Command) {
  return rollouts
    .command('init')
    .description('add a rollout to the workspace that is ready to run, with its data and configs')
    .argument('<name>', 'lower-case letters, digits and hyphens, e.g. price-check')
    .optionsGroup(groups.inputs)
    .addOption(
      new Option(
        '--framework <name>',
        'framework of the agent (default: with --existing the only one in package.json, else a terminal asks)',
      ).choices(frameworkNames),
    )
    .option(
      '--existing',
      'for an agent that exists: no example, but marked places for the agent and its grader',
    )
    .optionsGroup(groups.run)
    .addOption(
      new Option(
        '--package-manager <name>',
        'package manager that installs missing packages (default: that of the project, else the one that runs this command)',
      ).choices(packageManagers),
    )
    .option('--no-install', 'do not install packages')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', `do not ask; the default of --framework is then ${frameworkNames[0]}`)
    .addHelpText('after', example('osmosis rollout init price-check --framework openai-agents'))
}

type InitFlags = FlagsOf<typeof declareInit>

/** Adds `rollout init`. */
export function addInitCommand(rollouts: Command, setExitCode: SetExitCode): void {
  declareInit(rollouts).action(async (name, flags) => {
    setExitCode(await initCommand(name, flags))
  })
}

/** Files that a rollout needs in its workspace; missing ones are created. */
const needed = ['.dockerignore', '.gitignore', 'AGENTS.md', 'osmosis.toml', 'tsconfig.json']

/**
 * Adds a rollout to the workspace of the working folder. Resolves with the exit code: 0, 1 when its
 * packages could not be installed, 2 for wrong use and for existing files.
 */
async function initCommand(name: string, flags: InitFlags): Promise<number> {
  try {
    return await init(name, flags)
  } catch (error) {
    if (!(error instanceof ScaffoldError)) throw error
    printMessage(`error: ${error.message}`)
    return 2
  }
}

async function init(name: string, flags: InitFlags): Promise<number> {
  const problem = rolloutNameProblem(name)
  if (problem !== undefined) throw new ScaffoldError(problem)
  const root = await workspaceRoot()
  const { existing: isExisting = false } = flags
  const framework =
    flags.framework ??
    (isExisting ? onlyFramework(root) : undefined) ??
    (await chosenFramework(flags))
  const manifestFile = path.join(root, 'package.json')
  const missing = needed.filter((file) => !existsSync(path.join(root, file)))
  // Neither the policies of an existing osmosis.toml nor a new one for an agent that exists answer without being named.
  const hasDefault = missing.includes('osmosis.toml') && !isExisting
  const policy = hasDefault ? [] : ['--policy', `policies/${name}.ts`]
  const evaluation = ['eval', 'run', `configs/eval/${name}.toml`, ...policy]
  const manifest = extendedManifest(await readFile(manifestFile, 'utf8'), framework, {
    evaluate: ['osmosis', ...evaluation].join(' '),
    ...(!isExisting && { test: 'node --test "rollouts/**/*.test.ts"' }),
    typecheck: 'tsc --noEmit',
  })
  const rows = isExisting ? await existingRows(root, name) : undefined
  const columns = rows === undefined ? [] : await columnsToName(path.join(root, 'data', rows))
  const common = workspaceFiles({
    folder: path.basename(root),
    rollout: name,
    framework,
    isExisting,
  })
  const files = new Map([
    ...(isExisting
      ? existingRolloutFiles(name, framework, rows, columns)
      : rolloutFiles(name, framework)),
    ...missing.map((file) => [file, common.get(file) ?? ''] as const),
  ])
  await writeNewFiles(root, files)
  if (manifest.added.length > 0) await writeFile(manifestFile, manifest.text)
  printMessage(`Added the rollout ${name} (${frameworks[framework].title}) to ${root}:`)
  for (const file of files.keys()) printMessage(`  ${file}`)
  if (rows !== undefined) printMessage(`Its configs name the rows that are there: data/${rows}`)
  if (columns.length > 0) {
    printMessage(
      `Fill in which column is which, in [columns] of both configs: ${columns.join(', ')}`,
    )
  }
  const scripts = Object.entries(manifest.scripts)
  if (manifest.added.length > 0) {
    printMessage(`Added to package.json: ${manifest.added.join(', ')}`)
    const names = scripts.map(([script]) => script).join(', ')
    if (names !== '') printMessage(`Added to its scripts: ${names}`)
  } else if (scripts.length > 0) {
    printMessage('Scripts that package.json does not have:')
    for (const [script, line] of scripts) {
      printMessage(`  ${JSON.stringify(script)}: ${JSON.stringify(line)}`)
    }
  }
  const unfit = await missingOptions(path.join(root, 'tsconfig.json'))
  if (unfit.length > 0) {
    printMessage(
      'warning: tsconfig.json lacks options that the rollout needs. Set in its compilerOptions:',
    )
    for (const line of unfit) printMessage(`  ${line}`)
  }

  const manager = flags.packageManager ?? packageManagerOf(root, readEnvironment())
  const installs = manifest.added.length > 0
  if (installs && flags.install) {
    printMessage(`Installing with ${manager} …`)
    if (!(await install(manager, root))) {
      printMessage(
        `error: ${manager} install failed. Everything else is done: run it again in ${root}.`,
      )
      return 1
    }
  }
  const folder = path.relative(workingFolder(), root)
  const steps = [
    ...(folder === '' ? [] : [['cd', quoted(folder)]]),
    ...(installs && !flags.install ? [[manager, 'install']] : []),
    ...(isExisting
      ? [['npx', 'osmosis', 'validate', name]]
      : [
          ['npx', 'osmosis', ...evaluation],
          ['npx', 'osmosis', 'eval', 'show', 'latest', failingAttempt],
        ]),
  ]
  printError(`\nNext:\n${steps.flatMap(continued).join('\n')}\n\n`)
  return 0
}

/**
 * The name of the dataset in `data/` whose rows a rollout for an agent that exists takes: the one that is called as the rollout, else the only
 * one that no config names. Undefined when there is none, and when it takes the user to choose.
 */
async function existingRows(root: string, name: string): Promise<string | undefined> {
  // Configs hold the name between quotation marks.
  const datasets = (await filesIn(path.join(root, 'data'))).filter((file) =>
    /^[^"\\]+\.(?:jsonl|ndjson|csv|parquet)$/.test(file),
  )
  const own = datasets.find((file) => path.parse(file).name === name)
  if (own !== undefined) return own
  const configs = await textsBelow(path.join(root, 'configs'))
  const named = configs.flatMap((text) =>
    [...text.matchAll(/^\s*dataset\s*=\s*["']([^"']+)/gm)].map(([, dataset = '']) =>
      path.basename(dataset),
    ),
  )
  const isNamed = (file: string): boolean =>
    named.some((dataset) => dataset === file || dataset === path.parse(file).name)
  const [only, ...others] = datasets.filter((file) => !isNamed(file))
  return others.length === 0 ? only : undefined
}

/** The columns of a dataset whose configs have to say which is which; none when its first row has the usual ones. */
async function columnsToName(file: string): Promise<readonly string[]> {
  const { readRowTexts } = await import('@osmosis/eval')
  // What cannot be read is a matter of `osmosis validate`, which says why.
  const [first = '{}'] = await readRowTexts(file).catch(() => [])
  const names = Object.keys(JSON.parse(first) as object)
  const has = (...usual: string[]): boolean =>
    names.some((name) => usual.includes(name.trim().toLowerCase()))
  const isComplete = has('metadata') || (has('user_prompt') && has('ground_truth', 'label'))
  return isComplete ? [] : names
}

async function filesIn(folder: string): Promise<string[]> {
  return existsSync(folder) ? readdir(folder) : []
}

async function textsBelow(folder: string): Promise<string[]> {
  if (!existsSync(folder)) return []
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return Promise.all(
    files.map(async (file) => readFile(path.join(file.parentPath, file.name), 'utf8')),
  )
}

/** The workspace, else the nearest folder with a package.json, which becomes a workspace. */
async function workspaceRoot(): Promise<string> {
  const { findWorkspaceRoot } = await import('@osmosis/eval')
  const workspace = await findWorkspaceRoot(resolvePath('osmosis.toml'))
  if (workspace !== undefined && existsSync(path.join(workspace, 'package.json'))) return workspace
  for (let folder = workingFolder(); ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder
    if (folder === path.dirname(folder)) break
  }
  throw new ScaffoldError(
    'No package.json was found in this folder or above; a rollout needs one for its packages. Start a workspace: npm create @osmosis@latest',
  )
}

async function chosenFramework({ yes }: InitFlags): Promise<Framework> {
  if (yes === true) return frameworkNames[0]
  if (isInteractive()) return askFramework()
  throw new ScaffoldError(
    `No terminal is available for the answer: pass --framework ${frameworkNames.join(' | ')}, or --yes for ${frameworkNames[0]}.`,
  )
}

/** Compiler options that matter for a rollout. */
interface CompilerOptions {
  readonly target?: unknown
  readonly lib?: unknown
  readonly allowImportingTsExtensions?: unknown
  readonly rewriteRelativeImportExtensions?: unknown
}

/** The oldest library that our declarations and the files of a rollout compile with. */
const oldestLib = 2023
/** Limit for configs that extend one another in a circle, which the compiler reports. */
const mostExtended = 20

/**
 * Options that the files of a rollout need and a tsconfig.json lacks, a line for each. Empty for an
 * unreadable file, which the compiler reports.
 */
async function missingOptions(file: string): Promise<string[]> {
  const options = await readOptions(file, mostExtended).catch(() => undefined)
  if (options === undefined) return []
  const { target, lib, allowImportingTsExtensions, rewriteRelativeImportExtensions } = options
  const importsTs = allowImportingTsExtensions === true || rewriteRelativeImportExtensions === true
  const libraries = Array.isArray(lib) ? lib : [target]
  return [
    ...(importsTs
      ? []
      : [
          '"allowImportingTsExtensions": true, because files import one another as ./reward.ts; it needs "noEmit": true',
        ]),
    ...(libraries.some(isNewEnough)
      ? []
      : [`"lib": ["es${oldestLib}"] or newer, which the declarations of Osmosis are written for`]),
  ]
}

/** Without a target, the compiler uses its newest one. */
function isNewEnough(library: unknown): boolean {
  if (typeof library !== 'string') return library === undefined
  const [, year] = /^es(\d{4}|next)$/i.exec(library) ?? []
  return year !== undefined && (year.toLowerCase() === 'next' || Number(year) >= oldestLib)
}

/** The options of a config, with those of the configs that it extends. */
async function readOptions(file: string, most: number): Promise<CompilerOptions> {
  const config = parse(await readFile(file, 'utf8')) as {
    readonly extends?: string | readonly string[]
    readonly compilerOptions?: CompilerOptions
  }
  const extended = most === 0 ? [] : [config.extends ?? []].flat()
  const inherited = await Promise.all(
    extended.map(async (name) => readOptions(resolved(name, file), most - 1)),
  )
  return Object.assign({}, ...inherited, config.compilerOptions) as CompilerOptions
}

function resolved(name: string, from: string): string {
  const isFile = /^\.{1,2}(?:\/|$)/.test(name) || path.isAbsolute(name)
  if (!isFile) return createRequire(from).resolve(name)
  const file = path.resolve(path.dirname(from), name)
  return file.endsWith('.json') ? file : `${file}.json`
}

const string = String.raw`"(?:[^"\\\n]|\\.)*"`
const comment = String.raw`\/\/[^\n]*|\/\*[^]*?\*\/`
const lastComma = String.raw`,(?=\s*[}\]])`

/** Parses JSON with comments and trailing commas. */
function parse(text: string): unknown {
  const plain = text.replace(/^\uFEFF/, '').replaceAll(outsideStrings(comment), ofString)
  return JSON.parse(plain.replaceAll(outsideStrings(lastComma), ofString))
}

/** Also matches strings, so that their content is not replaced. */
function outsideStrings(pattern: string): RegExp {
  return new RegExp(`${string}|${pattern}`, 'g')
}

function ofString(part: string): string {
  return part.startsWith('"') ? part : ''
}
