import { readFile } from 'node:fs/promises'
import { statSync } from 'node:fs'
import path from 'node:path'

const moduleName = /\.[cm]?[jt]sx?$/i
/** What TypeScript calls a file that is imported by the name of its output. */
const sourceExtensions: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
}
const leftOut = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json']

/**
 * Files, and what they import by relative names, directly or not; nothing in `node_modules`. It reads
 * the texts and runs nothing: a name in a comment counts, one that is put together does not.
 */
export async function withImports(files: readonly string[]): Promise<string[]> {
  // Grows while it is gone through.
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
