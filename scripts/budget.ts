// The size of the sources, which only falls: test/repository/budget.test.ts holds it to test/repository/budget.json.
//
//   npx -y pnpm@12 run budget            prints the figures beside the budget
//   npx -y pnpm@12 run budget --update   lowers the budget to the figures that are below it
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { createProgram } from '../packages/cli/src/program.ts'

const root = path.resolve(import.meta.dirname, '..')
const budgetFile = path.join(root, 'test/repository/budget.json')

/** Figures by their names; `flags of eval run` and the like are the options of one command. */
export type Budget = Readonly<Record<string, number>>

/** Measures the sources of all packages, and the flags of all commands. */
export function measureBudget(): Budget {
  const sources = readAll('packages/*/{src,page}/**/*.{ts,tsx}')
  const tests = readAll('{packages/*/test,test}/**/*.{ts,tsx}')
  const imports = importsOf(sources)
  const importers = Map.groupBy([...imports.values()].flat(), (file) => file)
  return {
    'lines of sources': countLines(sources),
    'files of sources': sources.size,
    'lines of tests': countLines(tests),
    'files with one importer': [...importers.values()].filter(({ length }) => length === 1).length,
    'files in circles of imports': [...imports.keys()].filter((file) => isInCircle(imports, file))
      .length,
    'imports back up between folders': countBackwardImports(imports),
    ...flagCounts(createProgram(() => {})),
  }
}

export function readBudget(): Budget {
  return JSON.parse(readFileSync(budgetFile, 'utf8')) as Budget
}

type Texts = ReadonlyMap<string, string>
type Imports = ReadonlyMap<string, readonly string[]>

function readAll(pattern: string): Texts {
  const files = globSync(pattern, { cwd: root, exclude: ['**/node_modules/**'] })
  return new Map(files.map((file) => [file, readFileSync(path.join(root, file), 'utf8')]))
}

function countLines(texts: Texts): number {
  return [...texts.values()].reduce((sum, text) => sum + text.split('\n').length - 1, 0)
}

/** The files that each file imports from its own package, types and loads on demand included. */
function importsOf(sources: Texts): Imports {
  return new Map(
    [...sources].map(([file, text]) => {
      const specifiers = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)]
      const targets = specifiers.map(([, specifier = '']) =>
        path.join(path.dirname(file), specifier),
      )
      return [file, [...new Set(targets)].filter((target) => sources.has(target))]
    }),
  )
}

function isInCircle(imports: Imports, start: string): boolean {
  const seen = new Set<string>()
  const open = [...(imports.get(start) ?? [])]
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (file === start) return true
    if (seen.has(file)) continue
    seen.add(file)
    open.push(...(imports.get(file) ?? []))
  }
  return false
}

/** Where two folders import one another, the imports of the direction that has fewer. */
function countBackwardImports(imports: Imports): number {
  const arrows = new Map<string, number>()
  for (const [file, targets] of imports) {
    for (const target of targets) {
      const arrow = `${path.dirname(file)} ${path.dirname(target)}`
      arrows.set(arrow, (arrows.get(arrow) ?? 0) + 1)
    }
  }
  let sum = 0
  for (const [arrow, count] of arrows) {
    const [from = '', to = ''] = arrow.split(' ')
    if (from < to) sum += Math.min(count, arrows.get(`${to} ${from}`) ?? 0)
  }
  return sum
}

type Command = ReturnType<typeof createProgram>

/** The flags of each command that help lists, and of all of them together. */
function flagCounts(program: Command): Budget {
  const counts = listedCommands(program).map(
    ([name, { options }]) =>
      [`flags of ${name}`, options.filter(({ hidden }) => !hidden).length] as const,
  )
  const all = counts.reduce((sum, [, count]) => sum + count, 0)
  return { 'flags of all commands': all, ...Object.fromEntries(counts) }
}

function listedCommands(command: Command, name = ''): [string, Command][] {
  const visible = command.createHelp().visibleCommands(command)
  const listed = command.commands.filter((part) => visible.includes(part))
  if (listed.length === 0) return [[name, command]]
  return listed.flatMap((part) => listedCommands(part, `${name} ${part.name()}`.trim()))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const measured = measureBudget()
  const budget = readBudget()
  if (process.argv.includes('--update')) {
    const lowered = Object.entries(measured).map(
      ([name, value]) => [name, Math.min(value, budget[name] ?? value)] as const,
    )
    writeFileSync(budgetFile, `${JSON.stringify(Object.fromEntries(lowered), null, 2)}\n`)
  } else {
    for (const [name, value] of Object.entries(measured)) {
      console.log(`${name.padEnd(40)}${String(value).padStart(8)} of ${budget[name] ?? 'none'}`)
    }
  }
}
