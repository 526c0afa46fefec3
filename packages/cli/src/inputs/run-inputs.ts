import { createHash } from 'node:crypto'
import { createReadStream, statSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import type { RunInputs } from '@osmosis/eval/analysis'

import { fromWorkingFolder } from '../command/command-context.ts'
import { invalid } from '../command/wrong-use.ts'
import type { RunSubject } from './run-subject.ts'

/** What decides the outcome of a run, but for what only the served entrypoint knows: its kind. */
export type KnownInputs = Omit<RunInputs, 'code'> & {
  readonly code: Omit<RunInputs['code'], 'kind'>
}

/** Files of code by what they are, e.g. `policy module`. */
type CodeFiles = Readonly<Record<string, readonly string[]>>

/** What decides the outcome of a run besides what runs. */
interface FurtherInputs {
  readonly model: RunInputs['model']
  /** Names of eval functions. */
  readonly scorers: readonly string[]
  /** Files of code besides the sources of what runs, by their names in a comparison. */
  readonly files: CodeFiles
  readonly maxTurns: number | null
  /** Absolute folder of output, which is no source. */
  readonly written: string
}

/** Finds out what decides the outcome of a run. */
export async function findInputs(
  subject: RunSubject,
  { model, scorers, files, maxTurns, written }: FurtherInputs,
): Promise<KnownInputs> {
  const { sourceFolder, entrypoint, workflow } = subject
  const sources = await sourcesOf(subject, written)
  return {
    model,
    dataset: {
      name: subject.dataset,
      sha256: await digestOf([subject.datasetFile]),
      ...(Object.keys(subject.columns).length === 0 ? {} : { columns: { ...subject.columns } }),
    },
    code: {
      rollout: subject.rollout,
      entrypoint: sourceFolder === null ? entrypoint : path.relative(subject.root, entrypoint),
      sha256: await digestOf(await withImports([...sources, ...Object.values(files).flat()])),
      scorers,
    },
    ...(Object.keys(workflow).length === 0 ? {} : { workflow }),
    env: subject.env,
    secrets: Object.keys(subject.secrets).toSorted(),
    timeouts: {
      agent_seconds: subject.agentTimeoutSeconds,
      grader_seconds: subject.graderTimeoutSeconds,
      max_turns: maxTurns,
    },
  }
}

/** A digest of each part of the code: the sources of what runs as `code`, and the other files by their names. */
export async function digestParts(
  subject: RunSubject,
  { files, written }: Pick<FurtherInputs, 'files' | 'written'>,
): Promise<Readonly<Record<string, string>>> {
  const parts = Object.entries({ code: await sourcesOf(subject, written), ...files })
  const digests = parts.map(async ([name, own]) => [name, await digestOf(await withImports(own))])
  return Object.fromEntries(await Promise.all(digests)) as Record<string, string>
}

async function sourcesOf({ sourceFolder }: RunSubject, written: string): Promise<string[]> {
  return sourceFolder === null ? [] : sourcesIn(sourceFolder, new Set([written]))
}

/** Sources and texts, such as prompts. */
const sourceFile =
  /\.(?:[cm]?[jt]sx?|json|md|mdx|txt|ya?ml|toml|jinja2?|j2|hbs|njk|liquid|prompt|py)$/i
/** A folder with more files also serves another purpose. */
const mostSources = 10_000

/**
 * The sources in the folder of a rollout, without installed packages and hidden files.
 *
 * @param written - absolute folders and files of output, which are left out
 */
async function sourcesIn(sourceFolder: string, written: ReadonlySet<string>): Promise<string[]> {
  const files: string[] = []
  async function walk(folder: string): Promise<void> {
    const entries = await orUnreadable(folder, () => readdir(folder, { withFileTypes: true }))
    for (const entry of entries) {
      const { name } = entry
      const file = path.join(folder, name)
      if (name.startsWith('.') || name === 'node_modules' || written.has(file)) continue
      if (entry.isDirectory()) await walk(file)
      else if (sourceFile.test(name) && isFile(file)) files.push(file)
    }
  }
  await walk(sourceFolder)
  // The order of a folder's entries differs between file systems.
  return files.toSorted().slice(0, mostSources)
}

/** A digest of the names and bytes of files, independent of their folder. SHA-256, in hexadecimal digits. */
export async function digestOf(files: readonly string[]): Promise<string> {
  const digest = createHash('sha256')
  const sorted = [...new Set(files)].toSorted()
  const folder = path.dirname(sorted[0] ?? '')
  for (const file of sorted) {
    await orUnreadable(file, async () => {
      const { size } = await stat(file)
      digest.update(`${path.relative(folder, file)}\0${size}\0`)
      // A dataset may be larger than what can be read at once.
      for await (const bytes of createReadStream(file)) digest.update(bytes as Uint8Array)
    })
  }
  return digest.digest('hex')
}

/** @throws OsmosisError with code `invalid_config` for what cannot be read */
async function orUnreadable<T>(place: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (cause) {
    throw invalid(
      `Cannot read ${fromWorkingFolder(place)}, which belongs to the inputs of the run: ${errorMessage(cause)}. Let this user read it, or move it elsewhere.`,
      cause,
    )
  }
}

const moduleName = /\.[cm]?[jt]sx?$/i
/** Extensions of the source of a file that is imported by the name of its output. */
const sourceExtensions: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
}
const leftOut = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json']

/**
 * Files with their relative imports, direct and indirect, outside of `node_modules`. It searches the
 * texts: a name in a comment counts, a computed name does not.
 */
async function withImports(files: readonly string[]): Promise<string[]> {
  // The loop adds to the set that it iterates.
  const found = new Set(files)
  for (const file of found) {
    if (!moduleName.test(file)) continue
    const text = await orUnreadable(file, () => readFile(file, 'utf8'))
    for (const name of relativeImports(text)) {
      const imported = fileOf(path.resolve(path.dirname(file), name))
      if (imported !== undefined && !imported.split(path.sep).includes('node_modules')) {
        found.add(imported)
      }
    }
  }
  return [...found]
}

function relativeImports(text: string): string[] {
  const imports = text.matchAll(/\b(?:from|import|require)\s*\(?\s*(['"])(\.{1,2}\/[^'"\n?#]*)/g)
  return Array.from(imports, ([, , name = '']) => name)
}

function fileOf(name: string): string | undefined {
  const extension = path.extname(name)
  const stem = name.slice(0, name.length - extension.length)
  return [
    name,
    ...(sourceExtensions[extension] ?? []).map((source) => stem + source),
    ...leftOut.map((end) => name + end),
    ...leftOut.map((end) => path.join(name, `index${end}`)),
  ].find(isFile)
}

/** False also for a link that leads nowhere. */
function isFile(name: string): boolean {
  return statSync(name, { throwIfNoEntry: false })?.isFile() === true
}
