import { readdirSync, readFileSync, existsSync, lstatSync } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import path from 'node:path'

import { type Framework, frameworks } from './frameworks.ts'

/** A reason why files cannot be created, with advice; human-readable. */
export class ScaffoldError extends Error {
  override readonly name = 'ScaffoldError'
}

/** Windows reserves these names for devices, with any extension. */
const devices = /^(con|prn|aux|nul|com\d|lpt\d)$/

/**
 * The problem with a name of a rollout; undefined for a valid one. The name becomes a folder, three files and a
 * value in configs, on any system.
 */
export function rolloutNameProblem(name: string): string | undefined {
  if (!/^[a-z\d](?:[a-z\d-]*[a-z\d])?$/.test(name) || name.length > 64) {
    const suggestion = toRolloutName(name)
    return `The name of a rollout must be 1 to 64 lower-case letters, digits and hyphens, e.g. ${suggestion ?? 'price-check'}; got "${name}".`
  }
  if (devices.test(name)) return `A rollout cannot be called ${name}: Windows has no such folder.`
  return undefined
}

/** A valid name of a rollout similar to a text; undefined when none remains. */
export function toRolloutName(text: string): string | undefined {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, '-')
    .replace(/^-/, '')
    .slice(0, 64)
    .replace(/-$/, '')
  return name === '' || devices.test(name) ? undefined : name
}

/** Texts of files by their paths in the workspace, with `/` on every system. */
export type Files = ReadonlyMap<string, string>

/** An attempt at which the scripted policy of a new rollout fails in every run. */
export const failingAttempt = '11.1'

const templates = path.resolve(import.meta.dirname, '../templates')

/** The files of a workspace, without its rollouts and package.json. */
export function workspaceFiles(options: {
  /** Name of the folder. */
  readonly folder: string
  /** Its first rollout. */
  readonly rollout: string
  /** The framework of that rollout, about which AGENTS.md tells. */
  readonly framework: Framework
  /** Whether its agent exists, and has to be put into it. Default: false, the rollout is an example. */
  readonly isExisting?: boolean
}): Files {
  const { folder, rollout, framework, isExisting = false } = options
  const { title, page, steps } = frameworks[framework]
  return filesBelow('workspace', {
    __name__: rollout,
    '{{folder}}': folder,
    '{{task}}': isExisting
      ? `The place for the agent is marked in \`rollouts/${rollout}/main.ts\`: it is \`run()\` of the class that the steps name. To put an agent there that is written with ${title}:`
      : `The agent of \`rollouts/${rollout}/main.ts\` is an example. To replace it by an agent written with ${title}:`,
    '{{grading}}': gradingText(rollout, framework, isExisting),
    '{{default}}': isExisting ? noDefault : exampleDefault,
    '{{steps}}': steps.map((step, index) => `${index + 1}. ${step}`).join('\n'),
    '{{pages}}': [page, ...commonPages]
      .map((file) => `- \`node_modules/@osmosis/${file}\``)
      .join('\n'),
  })
}

/** Behind a `# ` in osmosis.toml. */
const exampleDefault = `The policy of runs without --policy and --base-url. It needs no model and no key.
default_policy = "scripted"`

const noDefault = `This is the place for default_policy = "scripted", with which \`osmosis eval run\` needs no --policy. As long as it is not
# set, \`osmosis validate\` answers with a policy of its own, which calls the first tool with arguments made from its schema.`

/** What comes behind the steps, up to the rows. */
function gradingText(rollout: string, framework: Framework, isExisting: boolean): string {
  if (framework === 'agent-loop') return 'A loop computes its reward itself: it has no grader.'
  return isExisting
    ? `Then write the grader, whose place is marked in \`rollouts/${rollout}/grader.ts\`. \`main.ts\` exports it already.`
    : `Then write the grader of the new agent into \`rollouts/${rollout}/grader.ts\`, which \`main.ts\` exports.`
}

/** Pages for every framework, below `node_modules/@osmosis`. */
const commonPages = [
  'core/docs/guides/workflows.md',
  'core/docs/guides/graders.md',
  'core/docs/guides/troubleshooting.md',
  'cli/docs/guides/datasets.md',
  'cli/docs/guides/evaluation.md',
  'cli/docs/guides/commands.md',
  'cli/docs/reference/configuration.md',
]

/**
 * The files of a rollout for an agent that exists: a module and a grader, which throw until the agent and the grader are written, configs, a
 * scripted policy, and an empty dataset, unless there is one.
 *
 * @param dataset - name of a file in `data/` that has the rows
 * @param columns - the columns of these rows if the configs have to name them, for which they get a place. Default: none
 */
export function existingRolloutFiles(
  name: string,
  framework: Framework,
  dataset: string | undefined,
  columns: readonly string[] = [],
): Files {
  const { page, steps } = frameworks[framework]
  const words = {
    __name__: name,
    __dataset__: dataset ?? name,
    '{{steps}}': steps.map((step, index) => `${index + 1}. ${step}`).join('\n    // '),
    '{{page}}': `node_modules/@osmosis/${page}`,
  }
  const kind = framework === 'agent-loop' ? 'agent-loop' : 'workflow'
  return new Map([
    ...filesBelow(`existing/${kind}`, words),
    ...filesBelow('existing/policy', words),
    ...(dataset === undefined ? filesBelow('existing/rows', words) : []),
    ...[...configsOf(framework, words)].map(
      ([file, text]) => [file, withPlaceForColumns(text, columns)] as const,
    ),
  ])
}

/** The config with a section `[columns]` behind the one that names the dataset, as a comment. */
function withPlaceForColumns(config: string, columns: readonly string[]): string {
  if (columns.length === 0) return config
  const names = columns.map((name) => JSON.stringify(name)).join(', ')
  const section = `# The rows have the columns ${names}.
# Fill in which of them is which, and remove the "# " of these lines:
# [columns]
# prompt = "…" # what the agent is asked
# label = "…" # the right answer; a list makes an object of several columns
# metadata = ["…"] # what the agent and the grader need besides; without such columns leave it out

`
  return config.replace(/^(?=\[(?:evaluation|training)\]$)/m, () => section)
}

/** The files of one rollout: module, grader, tool, reward and its test, data, configs, scripted policy. */
export function rolloutFiles(name: string, framework: Framework): Files {
  const words = { __name__: name, __dataset__: name }
  const main = readFileSync(path.join(templates, 'frameworks', `${framework}.ts`), 'utf8')
  return new Map([
    [`rollouts/${name}/main.ts`, filledIn(main, words)],
    ...(framework === 'codex' ? filesBelow('codex', words) : []),
    ...(framework === 'agent-loop' ? [] : filesBelow('workflow', words)),
    ...filesBelow('rollout', words),
    ...configsOf(framework, words),
  ])
}

/** An agent loop has no grader, and its configs must not have a time limit for one. */
function configsOf(framework: Framework, words: Readonly<Record<string, string>>): Files {
  const configs = [...filesBelow('configs', words)].map(
    ([file, text]) => [`configs/${file}`, text] as const,
  )
  if (framework !== 'agent-loop') return new Map(configs)
  return new Map(
    configs.map(([file, text]) => [file, text.replaceAll(/^grader_timeout_s .*\n/gm, '')]),
  )
}

/** Workspaces that are ready to train, by name. */
export const examples = {
  doors: {
    title: 'a tiny model learns to use a tool, on the CPU',
    dependencies: ['@osmosis/core'],
    steps: [
      'uv run make_tiny_model.py tiny-model',
      'npx osmosis train local configs/training/doors.toml --model tiny-model',
    ],
  },
} as const

/** One of {@link examples}. */
export type Example = keyof typeof examples

/** The files of an example's workspace, without package.json. */
export function exampleFiles(example: Example, folder: string): Files {
  const shared = [...filesBelow('workspace', {})].filter(([name]) =>
    ['.dockerignore', '.gitignore', 'tsconfig.json'].includes(name),
  )
  return new Map([...shared, ...filesBelow(`examples/${example}`, { '{{folder}}': folder })])
}

function filesBelow(folder: string, words: Readonly<Record<string, string>>): Files {
  const root = path.join(templates, folder)
  return new Map(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .toSorted()
      .map((file) => {
        // npm excludes files named .gitignore from packages.
        const name = path.relative(root, file).replace(/^(?:git|docker)ignore$/, '.$&')
        const place = filledIn(name.replaceAll(path.sep, '/'), words)
        return [place, filledIn(readFileSync(file, 'utf8'), words)]
      }),
  )
}

/** Markdown files use `{{word}}`, because formatters of Markdown change `__word__`. */
function filledIn(text: string, words: Readonly<Record<string, string>>): string {
  return text.replaceAll(/__[a-z]+__|\{\{[a-z]+\}\}/g, (word) => words[word] ?? word)
}

/**
 * Writes files below a folder, which is created if needed. Nothing is overwritten.
 *
 * @throws ScaffoldError, before anything is written, that names existing files; one that names the file that cannot be
 * written, after everything that was written before it has been removed
 */
export async function writeNewFiles(root: string, files: Files): Promise<void> {
  const inTheWay = obstacles(root, [...files.keys()])
  if (inTheWay.length > 0) {
    const list = inTheWay.map((name) => `- ${name}\n`).join('')
    throw new ScaffoldError(
      `Nothing was written, because these files already exist in ${root}:\n${list}Move them away, or use another name.`,
    )
  }
  const made: string[] = []
  for (const [name, text] of files) {
    const file = path.join(root, name)
    try {
      const folder = await mkdir(path.dirname(file), { recursive: true })
      if (folder !== undefined) made.push(folder)
      const handle = await open(file, 'wx')
      made.push(file)
      try {
        await handle.writeFile(text)
      } finally {
        await handle.close()
      }
    } catch (cause) {
      // A part of the files would be in the way of the next attempt, which would take it for a project.
      for (const place of made.toReversed()) await rm(place, { recursive: true, force: true })
      const message = `Nothing was written, because ${file} cannot be written: ${(cause as Error).message}`
      throw new ScaffoldError(message, { cause })
    }
  }
}

/** Existing files with a name of `files`, and files where a folder is needed. */
function obstacles(root: string, files: readonly string[]): string[] {
  const found = new Set<string>()
  if (isNotAFolder(root)) return [root]
  for (const name of files) {
    const parts = name.split('/')
    const folders = parts.slice(0, -1).map((_, index) => parts.slice(0, index + 1).join('/'))
    const file = folders.find((folder) => isNotAFolder(path.join(root, folder)))
    if (file !== undefined) found.add(file)
    else if (existsSync(path.join(root, name))) found.add(name)
  }
  return [...found]
}

function isNotAFolder(place: string): boolean {
  try {
    const found = lstatSync(place)
    return !found.isDirectory() && !found.isSymbolicLink()
  } catch {
    // Whether something can be created there shows when it is: a folder above may be a file.
    return false
  }
}
