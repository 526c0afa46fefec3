import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import type { Framework } from './frameworks.ts'

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
