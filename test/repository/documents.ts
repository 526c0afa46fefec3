import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')

/** All documents that are written for people, relative to the root. */
export const documents = globSync(
  [
    '*.md',
    'docs/**/*.md',
    '{packages,benchmarks}/**/README.md',
    'examples/**/README.md',
    '.github/*.md',
  ],
  { cwd: root, exclude: ['**/node_modules/**', '**/templates/**', '**/dist/**'] },
)

/** A fenced block of a document. */
export interface Block {
  readonly document: string
  /** Of its first line of text, counted from 1. */
  readonly line: number
  readonly language: string
  /**
   * What the reader is to call it: a comment in its first line says so, or in languages without
   * comments the word behind the language.
   */
  readonly file: string | undefined
  readonly text: string
}

/** The text of a document. */
export function read(document: string): string {
  return readFileSync(path.join(root, document), 'utf8')
}

/** The blocks of a document in one of some languages. */
export function blocksOf(document: string, ...languages: readonly string[]): Block[] {
  const whole = read(document)
  return [...whole.matchAll(/^```(\w+) ?(\S*)\n([^]*?)^```$/gm)]
    .map(({ 1: language = '', 2: info = '', 3: text = '', index }) => ({
      document,
      line: whole.slice(0, index).split('\n').length + 1,
      language,
      file: info || /^(?:\/\/|#) (\S+\.\w+)\n/.exec(text)?.[1],
      text,
    }))
    .filter(({ language }) => languages.includes(language))
}

/** The name of the package that an import is from. */
export function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** What the programs of a text import by name, with the places in it. */
export function importsOf(text: string): { readonly specifier: string; readonly index: number }[] {
  return [...text.matchAll(/^\+?(?:import|\}) .*?from '([^.'][^']*)'/gm)].map(
    ({ 1: specifier = '', index }) => ({ specifier, index }),
  )
}
