import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import type { Scorer } from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'

import { fromHere } from '../../command/surroundings.ts'
import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import type { ComparedModels } from '../models/compared-models.ts'
import type { EvalRunFlags } from '../run.ts'
import type { EvalRunPlan } from './evaluation-plan.ts'

/** What decides the outcome of a run, but for what only the served entrypoint knows: its kind. */
export type KnownInputs = Omit<RunInputs, 'code'> & {
  readonly code: Omit<RunInputs['code'], 'kind'>
}

/** Finds out what decides the outcome of the run that a plan is about. */
export async function findInputs(
  plan: EvalRunPlan,
  flags: EvalRunFlags,
  { models, scorers }: { readonly models: ComparedModels; readonly scorers: readonly Scorer[] },
): Promise<KnownInputs> {
  const { primary, baseline } = models
  const { temperature, maxTokens } = flags
  const modules = [primary, baseline].flatMap((model) =>
    model?.choice.kind === 'module' ? [model.choice.file] : [],
  )
  const evalFiles = (flags.evalFn ?? []).map((spec) =>
    moduleFile('eval function', splitSpec(spec).file),
  )
  return {
    model: {
      name: primary.name,
      base_url: addressOf(primary),
      baseline: baseline?.name ?? null,
      params: {
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
        ...(baseline === undefined ? {} : { baseline_base_url: addressOf(baseline) }),
      },
    },
    dataset: { name: plan.dataset, sha256: await digestOf([plan.datasetFile]) },
    code: {
      rollout: plan.rollout,
      entrypoint: plan.server?.url ?? path.relative(plan.root, plan.entrypoint),
      // Of a server's code nothing is known here.
      sha256: await digestOf(
        await withImports([
          ...(plan.server === undefined ? await sourcesIn(plan, flags) : []),
          ...modules,
          ...evalFiles,
        ]),
      ),
      scorers: scorers.map(({ name }) => name),
    },
    env: plan.env,
    secrets: Object.keys(plan.secrets).toSorted(),
    timeouts: {
      agent_seconds: plan.agentTimeoutSeconds,
      grader_seconds: plan.graderTimeoutSeconds,
      max_turns: flags.maxTurns ?? null,
    },
  }
}

/** The address of an endpoint, without user info; null for a module and for a provider. */
function addressOf({ choice }: ChosenPolicy): string | null {
  if (choice.kind !== 'endpoint') return null
  const { origin, pathname } = new URL(choice.baseUrl)
  return `${origin}${pathname.replace(/\/+$/, '')}`
}

/** Sources and texts, such as prompts. */
const sourceFile =
  /\.(?:[cm]?[jt]sx?|json|md|mdx|txt|ya?ml|toml|jinja2?|j2|hbs|njk|liquid|prompt|py)$/i
/** A folder with more files also serves another purpose. */
const mostSources = 10_000

/** The sources of the rollout, without installed packages, hidden files and output of the run. */
async function sourcesIn(
  { sourceFolder, outputRoot }: EvalRunPlan,
  { log }: EvalRunFlags,
): Promise<string[]> {
  const written = new Set([outputRoot, log].map((folder) => folder && fromHere(folder)))
  const files: string[] = []
  async function walk(folder: string): Promise<void> {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const { name } = entry
      const file = path.join(folder, name)
      if (name.startsWith('.') || name === 'node_modules' || written.has(file)) continue
      if (entry.isDirectory()) await walk(file)
      else if (sourceFile.test(name) && files.length < mostSources) files.push(file)
    }
  }
  await walk(sourceFolder)
  return files
}

/** A digest of the names and bytes of files, independent of their folder. */
async function digestOf(files: readonly string[]): Promise<string> {
  const digest = createHash('sha256')
  const sorted = [...new Set(files)].toSorted()
  const folder = path.dirname(sorted[0] ?? '')
  for (const file of sorted) {
    const bytes = await readFile(file)
    digest.update(`${path.relative(folder, file)}\0${bytes.length}\0`).update(bytes)
  }
  return digest.digest('hex')
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
    for (const name of relativeImports(await readFile(file, 'utf8'))) {
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
  ].find((candidate) => statSync(candidate, { throwIfNoEntry: false })?.isFile())
}
