import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

/** What a rollout needs of the compiler, as far as a config says it. */
interface CompilerOptions {
  readonly target?: unknown
  readonly lib?: unknown
  readonly allowImportingTsExtensions?: unknown
  readonly rewriteRelativeImportExtensions?: unknown
}

/** The oldest library that our declarations and the files of a rollout compile with. */
const oldestLib = 2023
/** Configs that extend one another in a circle are the compiler's business. */
const mostExtended = 20

/**
 * What a tsconfig.json lacks that the files of a rollout need: a line for each option. None for one that
 * cannot be read, because the compiler says that itself.
 */
export async function missingOptions(file: string): Promise<string[]> {
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

/** A compiler without a target takes the newest language it knows, or says what it lacks. */
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

/** JSON with comments, and commas behind the last of a list. */
function parse(text: string): unknown {
  const plain = text.replace(/^\uFEFF/, '').replaceAll(outsideStrings(comment), ofString)
  return JSON.parse(plain.replaceAll(outsideStrings(lastComma), ofString))
}

/** Matches strings as well, so that nothing in them is taken for what is looked for. */
function outsideStrings(pattern: string): RegExp {
  return new RegExp(`${string}|${pattern}`, 'g')
}

function ofString(part: string): string {
  return part.startsWith('"') ? part : ''
}
