import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'

import { frameworkNames, frameworks, isFramework, type Framework } from './frameworks.ts'
import { newManifest, type NewManifest } from './manifest.ts'
import {
  install,
  packageManagerOf,
  packageManagers,
  run,
  type PackageManager,
  settingsFiles,
  addForDevelopment,
} from './package-manager.ts'
import {
  exampleFiles,
  examples,
  rolloutNameProblem,
  toRolloutName,
  ScaffoldError,
  failingAttempt,
  rolloutFiles,
  workspaceFiles,
  writeNewFiles,
  type Example,
  type Files,
} from './scaffold.ts'

const usage = `Usage: npm create @osmosis@latest [folder] -- [options]
       pnpm create @osmosis@latest [folder] [options]

Creates an Osmosis workspace with one rollout that is ready to run. In a
terminal it asks for missing options.

  --framework <name>        ${indented(frameworkNames)}
  --example <name>          in place of a rollout of your own: ${Object.keys(examples).join(', ')}
  --name <name>             of the rollout (default: that of the folder)
  --package-manager <name>  ${packageManagers.join(', ')} (default: the one in use)
  --no-install              do not install packages
  --no-git                  do not create a git repository
  -y, --yes                 do not ask; use the defaults
  -h, --help                print this
  -v, --version             print the version
`

/** Names under the column of descriptions, with line breaks where lines would not fit a terminal of 80 columns. */
function indented(names: readonly string[]): string {
  const lines: string[] = []
  for (const name of names) {
    const line = lines.at(-1)
    const longer = `${line}, ${name}`
    if (line !== undefined && longer.length <= 50) lines[lines.length - 1] = longer
    else lines.push(name)
  }
  return lines.join(`,\n${' '.repeat(28)}`)
}

type PlannedContent =
  | { readonly kind: 'rollout'; readonly rollout: string; readonly framework: Framework }
  | { readonly kind: 'example'; readonly example: Example }

/** The project to create. */
interface CreatePlan {
  /** Absolute. */
  readonly folder: string
  readonly content: PlannedContent
  readonly manager: PackageManager
  readonly installs: boolean
  readonly makesRepository: boolean
}

/**
 * Runs `create-osmosis` and resolves with its exit code: 0, 1 when packages could not be installed,
 * 2 for wrong use, for existing files and for files that cannot be written.
 *
 * @param args - the arguments of the command
 */
export async function main(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<number> {
  try {
    const flags = readFlags(args)
    if (flags.help === true) process.stdout.write(usage)
    else if (flags.version === true) process.stdout.write(`${ownVersion()}\n`)
    else return await create(await toPlan(flags, environment))
    return 0
  } catch (error) {
    if (!(error instanceof ScaffoldError)) throw error
    process.stderr.write(`error: ${error.message}\n`)
    return 2
  }
}

interface CreateFlags {
  readonly folder?: string | undefined
  readonly framework?: string | undefined
  readonly example?: string | undefined
  readonly name?: string | undefined
  readonly 'package-manager'?: string | undefined
  readonly install?: boolean | undefined
  readonly git?: boolean | undefined
  readonly yes?: boolean | undefined
  readonly help?: boolean | undefined
  readonly version?: boolean | undefined
}

function readFlags(args: readonly string[]): CreateFlags {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      allowNegative: true,
      options: {
        framework: { type: 'string' },
        example: { type: 'string' },
        name: { type: 'string' },
        'package-manager': { type: 'string' },
        install: { type: 'boolean' },
        git: { type: 'boolean' },
        yes: { type: 'boolean', short: 'y' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean', short: 'v' },
      },
    })
    const [folder, ...others] = positionals
    if (others.length === 0) return { ...values, folder }
    throw new ScaffoldError(
      `Name one folder; got ${positionals.join(', ')}. With npm, options follow \`--\`: npm create @osmosis@latest ${folder} -- --framework strands`,
    )
  } catch (error) {
    if (error instanceof ScaffoldError) throw error
    throw new ScaffoldError(`${(error as Error).message}\n\n${usage}`)
  }
}

async function toPlan(flags: CreateFlags, environment: NodeJS.ProcessEnv): Promise<CreatePlan> {
  const asks = flags.yes !== true && isInteractive()
  const framework = checkedFramework(flags.framework)
  const example = checkedExample(flags)
  const manager = checkedManager(flags['package-manager'])
  if (flags.name !== undefined) assertRolloutName(flags.name)
  if (!asks && flags.yes !== true) {
    const missing = [
      ...(flags.folder === undefined ? ['a folder'] : []),
      ...(framework === undefined && example === undefined
        ? [`--framework ${frameworkNames.join(' | ')}`]
        : []),
    ]
    if (missing.length > 0) {
      throw new ScaffoldError(
        `No terminal is available for questions: pass ${missing.join(' and ')}, or --yes for the defaults. With npm, options follow \`--\`: npm create @osmosis@latest my-agent -- --framework strands`,
      )
    }
  }
  const preset = example ?? 'my-agent'
  const given = flags.folder ?? (asks ? await askText('Which folder?', preset) : preset)
  const folder = path.resolve(given)
  for (const name of folder.split(path.sep)) assertFolderName(name)
  return {
    folder,
    content:
      example === undefined
        ? {
            kind: 'rollout',
            rollout: flags.name ?? toRolloutName(path.basename(folder)) ?? 'my-agent',
            framework: framework ?? (asks ? await askFramework() : frameworkNames[0]),
          }
        : { kind: 'example', example },
    manager: manager ?? packageManagerOf(folder, environment),
    installs: flags.install !== false,
    makesRepository: flags.git !== false,
  }
}

function checkedFramework(given: string | undefined): Framework | undefined {
  if (given === undefined || isFramework(given)) return given
  throw new ScaffoldError(`--framework must be ${frameworkNames.join(', ')}; got "${given}".`)
}

function checkedExample({ example, framework, name }: CreateFlags): Example | undefined {
  if (example === undefined) return undefined
  const other = framework === undefined ? name && '--name' : '--framework'
  if (other)
    throw new ScaffoldError(`An example has its own rollout: pass --example without ${other}.`)
  if (Object.hasOwn(examples, example)) return example as Example
  throw new ScaffoldError(
    `--example must be ${Object.keys(examples).join(', ')}; got "${example}".`,
  )
}

function checkedManager(given: string | undefined): PackageManager | undefined {
  const found = packageManagers.find((name) => name === given)
  if (given === undefined || found !== undefined) return found
  throw new ScaffoldError(
    `--package-manager must be one of ${packageManagers.join(', ')}; got "${given}".`,
  )
}

/** What file systems allow. Bytes. */
const longestName = 255

function assertFolderName(name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes <= longestName) return
  throw new ScaffoldError(
    `The name of a folder must have at most ${longestName} bytes; got ${bytes}: ${name.slice(0, 20)}… Choose a shorter one.`,
  )
}

function assertRolloutName(name: string): void {
  const problem = rolloutNameProblem(name)
  if (problem !== undefined) throw new ScaffoldError(problem)
}

async function create(plan: CreatePlan): Promise<number> {
  const { folder, content, manager } = plan
  assertNoProject(plan)
  const { files, manifest, title, steps } = contentOf(content, path.basename(folder))
  await writeNewFiles(
    folder,
    new Map([
      ['package.json', newManifest({ ...manifest, folder: path.basename(folder), manager })],
      ...Object.entries(settingsFiles[manager]),
      ...files,
    ]),
  )
  const place = path.relative('', folder) || '.'
  say(`Created ${place} with ${title}.`)
  if (plan.makesRepository) await makeRepository(folder)
  if (plan.installs) {
    say(`Installing with ${manager} …`)
    if (!(await install(manager, folder))) {
      say(`error: ${manager} install failed. Everything else is done: run it again in ${place}.`)
      return 1
    }
  }
  const next = [
    ...(place === '.' ? [] : [`cd ${quoted(place)}`]),
    ...(plan.installs ? [] : [`${manager} install`]),
    ...steps,
  ]
  say(`\nNext:\n${next.map((step) => `  ${step}\n`).join('')}`)
  return 0
}

/** What a workspace is filled with, and what to do next. */
interface WorkspaceContent {
  readonly files: Files
  readonly manifest: Pick<NewManifest, 'scripts' | 'dependencies'>
  readonly title: string
  readonly steps: readonly string[]
}

/** @param called - name of the folder */
function contentOf(content: PlannedContent, called: string): WorkspaceContent {
  if (content.kind === 'example') {
    const { title, dependencies, steps } = examples[content.example]
    return {
      files: exampleFiles(content.example, called),
      manifest: { scripts: {}, dependencies },
      title: `the example ${content.example}: ${title}`,
      steps,
    }
  }
  const { rollout, framework } = content
  const { title, dependencies } = frameworks[framework]
  return {
    files: new Map([
      ...workspaceFiles({ folder: called, rollout, framework }),
      ...rolloutFiles(rollout, framework),
    ]),
    manifest: {
      scripts: {
        evaluate: `osmosis eval run configs/eval/${rollout}.toml`,
        test: 'node --test "rollouts/**/*.test.ts"',
      },
      dependencies,
    },
    title: `the rollout ${rollout} (${title})`,
    steps: [
      `npx osmosis eval run configs/eval/${rollout}.toml`,
      `npx osmosis eval show latest ${failingAttempt}`,
    ],
  }
}

/** An existing project needs a new rollout, not a second project. */
function assertNoProject({ folder, content, manager }: CreatePlan): void {
  if (!existsSync(path.join(folder, 'package.json'))) return
  const place = path.relative('', folder)
  if (content.kind === 'example') {
    throw new ScaffoldError(
      `Nothing was written: ${place || 'this folder'} has a package.json, so it already is a project. Name a new folder for the example.`,
    )
  }
  const { rollout, framework } = content
  const steps = [
    ...(place === '' ? [] : [`cd ${quoted(place)}`]),
    `${addForDevelopment[manager]} @osmosis/cli`,
    `npx osmosis rollout init ${rollout} --framework ${framework}`,
  ]
  throw new ScaffoldError(
    `Nothing was written: ${place || 'this folder'} has a package.json, so it already is a project. Add a rollout to it, with --existing for an agent that it has:\n${steps.map((step) => `  ${step}`).join('\n')}`,
  )
}

/** Creates a repository unless the folder is in one. A missing git is ignored. */
async function makeRepository(folder: string): Promise<void> {
  for (let above = folder; ; above = path.dirname(above)) {
    if (existsSync(path.join(above, '.git'))) return
    if (above === path.dirname(above)) break
  }
  await run('git', ['init', '--quiet'], folder)
}

function quoted(place: string): string {
  return /\s/.test(place) ? `"${place}"` : place
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

function ownVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** Whether a user can answer questions. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY
}

/** Asks for a line of text; an empty line means `preset`. */
async function askText(question: string, preset: string): Promise<string> {
  const said = await ask(`${question} [${preset}] `)
  return said === '' ? preset : said
}

/** Asks which framework, until the answer is the number or the name of one. */
export async function askFramework(): Promise<Framework> {
  const list = frameworkNames.map(
    (name, index) => `  ${index + 1}  ${name.padEnd(16)} ${frameworks[name].title}\n`,
  )
  process.stderr.write(`Which framework is the agent written with?\n${list.join('')}`)
  for (;;) {
    const said = await ask(`1 to ${frameworkNames.length} [1] `)
    const name = said === '' ? frameworkNames[0] : (frameworkNames[Number(said) - 1] ?? said)
    if (isFramework(name)) return name
    process.stderr.write(`It must be a number from 1 to ${frameworkNames.length}, or a name.\n`)
  }
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const over = new AbortController()
  // Ctrl-C and Ctrl-D both end the input.
  lines.once('SIGINT', () => over.abort())
  lines.once('close', () => over.abort())
  try {
    return (await lines.question(question, { signal: over.signal })).trim()
  } catch {
    throw new ScaffoldError('Nothing was written: the question was not answered.')
  } finally {
    lines.close()
  }
}
