import { readdirSync, readFileSync, existsSync, lstatSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import type { Framework } from './frameworks.ts'

/** Something that keeps a scaffold from being made, and what to do about it. For people. */
export class ScaffoldError extends Error {
  override readonly name = 'ScaffoldError'
}

/** Windows opens a device under each of these names, whatever the extension. */
const devices = /^(con|prn|aux|nul|com\d|lpt\d)$/

/**
 * What is wrong with the name of a rollout; undefined for a good one. It becomes a folder, three
 * files and a value in configs, on any system.
 */
export function rolloutNameProblem(name: string): string | undefined {
  if (!/^[a-z\d](?:[a-z\d-]*[a-z\d])?$/.test(name) || name.length > 64) {
    const suggestion = toRolloutName(name)
    return `The name of a rollout must be 1 to 64 lower-case letters, digits and hyphens, e.g. ${suggestion ?? 'price-check'}; got "${name}".`
  }
  if (devices.test(name)) return `A rollout cannot be called ${name}: Windows has no such folder.`
  return undefined
}

/** The nearest name of a rollout; undefined when nothing is left of a text. */
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

/** An attempt that the scripted policy of a new rollout fails in every run. */
export const failingAttempt = '11.1'

const templates = path.resolve(import.meta.dirname, '../templates')

/** The files of a workspace that are not one rollout's, but for its package.json. */
export function workspaceFiles(options: {
  /** What the folder is called. */
  readonly folder: string
  /** Its first rollout. */
  readonly rollout: string
}): Files {
  return filesBelow('workspace', { '{{folder}}': options.folder, __name__: options.rollout })
}

/** The files of one rollout: module, grader, tool, reward and its test, data, configs, scripted policy. */
export function rolloutFiles(name: string, framework: Framework): Files {
  const words = { __name__: name }
  // A loop rewards itself: it has no grader, and its configs are refused with a time limit for one.
  const hasGrader = framework !== 'agent-loop'
  const forKind = (text: string): string =>
    hasGrader ? text : text.replaceAll(/^grader_timeout_s .*\n/gm, '')
  const main = readFileSync(path.join(templates, 'frameworks', `${framework}.ts`), 'utf8')
  return new Map([
    [`rollouts/${name}/main.ts`, filledIn(main, words)],
    ...(hasGrader ? filesBelow('workflow', words) : []),
    ...[...filesBelow('rollout', words)].map(([file, text]) => [file, forKind(text)] as const),
  ])
}

function filesBelow(folder: string, words: Readonly<Record<string, string>>): Files {
  const root = path.join(templates, folder)
  return new Map(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .toSorted()
      .map((file) => {
        // npm leaves files called .gitignore out of packages.
        const name = path.relative(root, file).replace(/^gitignore$/, '.gitignore')
        const place = filledIn(name.replaceAll(path.sep, '/'), words)
        return [place, filledIn(readFileSync(file, 'utf8'), words)]
      }),
  )
}

/** Formatters of Markdown write `__word__` in other signs, but for code; there stands `{{word}}`. */
function filledIn(text: string, words: Readonly<Record<string, string>>): string {
  return text.replaceAll(/__[a-z]+__|\{\{[a-z]+\}\}/g, (word) => words[word] ?? word)
}

/**
 * Writes files below a folder, which is made if it is not there. Nothing is overwritten.
 *
 * @throws ScaffoldError, before anything is written, that names what stands in the way
 */
export async function writeNewFiles(root: string, files: Files): Promise<void> {
  const inTheWay = obstacles(root, [...files.keys()])
  if (inTheWay.length > 0) {
    const list = inTheWay.map((name) => `- ${name}\n`).join('')
    throw new ScaffoldError(
      `Nothing was written, because these files already exist in ${root}:\n${list}Move them away, or use another name.`,
    )
  }
  for (const [name, text] of files) {
    const file = path.join(root, name)
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, text, { flag: 'wx' })
  }
}

/** What is there under a name of `files`, and files where these need a folder. */
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
  const found = lstatSync(place, { throwIfNoEntry: false })
  return found !== undefined && !found.isDirectory() && !found.isSymbolicLink()
}
