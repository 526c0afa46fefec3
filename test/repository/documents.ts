import { existsSync, globSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { isBuiltin } from 'node:module'
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
  return [...text.matchAll(/^[+ ]?(?:import|\}) .*?from '([^.'][^']*)'/gm)].map(
    ({ 1: specifier = '', index }) => ({ specifier, index }),
  )
}

/** Installs what the programs of the documents import, and what their readers run, from here. */
export function linkPackages(folder: string): void {
  const programs = documents.flatMap((document) => blocksOf(document, 'ts'))
  const imported = programs.flatMap(({ text }) => importsOf(text).map(({ specifier }) => specifier))
  const packages = imported.filter((name) => !isBuiltin(name)).map(packageOf)
  const places = globSync('{.,packages/*,examples/rollouts/*,test/any-framework}/node_modules', {
    cwd: root,
  })
  const langchain = ['@langchain/core', '@langchain/langgraph', '@langchain/openai']
  const pi = ['@osmosis/pi', '@earendil-works/pi-agent-core', '@earendil-works/pi-ai', 'typebox']
  const besides = ['@ai-sdk/openai', '@osmosis/cli', '@types/node', 'openai', 'typescript']
  for (const name of new Set([...packages, ...langchain, ...pi, ...besides])) {
    const own = name.replace(/^@osmosis\//, 'packages/')
    const found = [own, ...places.map((place) => path.join(place, name))].find((place) =>
      existsSync(path.join(root, place)),
    )
    if (found === undefined) throw new Error(`${name} is not installed anywhere here`)
    const link = path.join(folder, 'node_modules', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(path.join(root, found), link)
  }
}

/** What stands below a heading, up to the next one of its level or above; '' without it. */
export function section(text: string, heading: string): string {
  const lines = text.split('\n')
  // A comment of a program may look like a heading.
  const outside = text.replaceAll(/^```[^]*?^```/gm, (code) => code.replaceAll(/^#/gm, ' '))
  const headings = outside.split('\n')
  const start = headings.findIndex(
    (line) => line.replace(/^#+ /, '') === heading && line !== heading,
  )
  if (start === -1) return ''
  const level = lines[start]?.indexOf(' ') ?? 0
  const length = headings
    .slice(start + 1)
    .findIndex((line) => /^#+ /.test(line) && line.indexOf(' ') <= level)
  return lines.slice(start + 1, length === -1 ? undefined : start + 1 + length).join('\n')
}

/** What the rows of all tables of a text have as code in a column. */
export function tableColumn(text: string, column = 0): string[] {
  return text.split('\n').flatMap((line) => {
    const [, name] = /^ `([^`]+)`/.exec(line.split('|')[column + 1] ?? '') ?? []
    return name ?? []
  })
}
