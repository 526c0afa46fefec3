import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const sources = new Map(
  globSync(['packages/*/{src,page}/**/*.{ts,tsx}', 'test/kit/**/*.ts'], { cwd: root }).map(
    (file) => [file, readFileSync(path.join(root, file), 'utf8')],
  ),
)

/** Folders that hold more files than can be read as a list at a glance, with how many they hold: a number may only fall. */
const largeFolders: Readonly<Record<string, number>> = {
  'packages/ai-sdk/src': 13,
  'packages/cli/src/command': 10,
  'packages/cli/src/eval': 9,
  'packages/cli/src/eval/show': 11,
  'packages/controller/src/policy': 9,
  'packages/core/src': 14,
  'packages/core/src/http': 12,
  'packages/core/src/policy': 15,
  'packages/langchain/src': 11,
  'packages/openai-agents/src': 13,
  'packages/server/src/execution': 15,
  'packages/strands/src': 12,
  'test/kit': 37,
  'test/kit/backend-contract': 11,
  'test/kit/trainers': 10,
  'packages/trainer-links/src': 9,
  'packages/viewer/page/run': 11,
}

/** Folders of a package that import one another. A new pair is a file in the wrong folder; one that is gone leaves the list. */
const mutualFolders: readonly string[] = [
  'agent-loop/src agent-loop/src/chat',
  'agent-loop/src agent-loop/src/server',
  'controller/src/client controller/src/workflow',
  'controller/src/policy controller/src/session',
  'core/src core/src/http',
  'core/src core/src/http/egress',
  'core/src core/src/policy',
  'core/src core/src/policy/answer',
  'core/src core/src/sandbox',
  'core/src core/src/scores',
  'core/src core/src/tracing',
  'core/src core/src/workflow',
  'core/src/policy core/src/policy/answer',
  'core/src/policy core/src/tracing',
  'core/src/policy core/src/workflow',
  'eval/src/store/read eval/src/store/write',
  'models/src models/src/judge',
  'models/src models/src/provider',
  'proxy/src proxy/src/anthropic',
  'proxy/src proxy/src/responses',
  'testing/src testing/src/adapter-contract',
  'train/src train/src/batch',
  'train/src train/src/local',
  'train/src train/src/loop',
  'train/src train/src/tinker',
  'train/src train/src/tinker/service',
  'train/src/tinker train/src/tinker/service',
  'viewer/page viewer/page/compare',
  'viewer/page viewer/page/run',
  'viewer/page viewer/page/runs',
  'viewer/page viewer/page/text',
  'viewer/page viewer/page/training',
  'viewer/page/run viewer/page/transcript',
  'viewer/src viewer/src/report',
  'viewer/src viewer/src/runs',
  'viewer/src viewer/src/server',
  'viewer/src viewer/src/trainings',
  'viewer/src/runs viewer/src/trainings',
]

/** Names that two packages mean differently, because the products that they follow do. */
const sharedNames = ['OsmosisRolloutModel', 'RolloutContext', 'RolloutRequest']

it('a folder holds at most eight source files, but for those that are listed', () => {
  const counts = Map.groupBy(sources.keys(), (file) => path.dirname(file))
  const large = [...counts].flatMap(([folder, { length }]) =>
    length > 8 ? [[folder, length] as const] : [],
  )
  expect(Object.fromEntries(large)).toEqual(largeFolders)
})

// The steps of these tests load only the files in which they find it.
it('a test that is slow or nightly has its tag as a word in its own file', () => {
  const lines = globSync(
    ['packages/*/test/**/*.ts', 'test/{examples,training,any-framework,any-server,kit}/**/*.ts'],
    { cwd: root, exclude: ['**/node_modules/**'] },
  ).flatMap((file) => {
    const text = readFileSync(path.join(root, file), 'utf8')
    const tags = text.match(/^.*(?:\btags:.*\b(?:slow|nightly)\b|@module-tag).*$/gm) ?? []
    return tags.map((line) => `${file}: ${line}`)
  })
  const isFound = /\.test\.ts: (?:.*\btags: '(?:slow|nightly)'|\/\/ @module-tag (?:slow|nightly)$)/
  expect(lines.length).toBeGreaterThan(50)
  expect(lines.filter((line) => !isFound.test(line))).toEqual([])
})

it('an exported type has a name of its own', () => {
  const declared = new Map<string, string[]>()
  for (const [file, text] of sources) {
    const pattern = /^export (?:declare )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm
    for (const [, name = ''] of text.matchAll(pattern)) {
      declared.set(name, [...(declared.get(name) ?? []), file])
    }
  }
  const shared = [...declared].filter(([, files]) => files.length > 1)
  expect(shared.map(([name]) => name).toSorted()).toEqual(sharedNames)
})

/** The files that each file imports, types and loads on demand included. */
const imports = new Map(
  [...sources].map(([file, text]) => [
    file,
    [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)]
      .map(([, specifier = '']) => path.join(path.dirname(file), specifier))
      .filter((target) => sources.has(target)),
  ]),
)

it('folders do not import one another, but for those that are listed', () => {
  const arrows = new Set(
    [...imports].flatMap(([file, targets]) =>
      targets.map((target) => `${path.dirname(file)} ${path.dirname(target)}`),
    ),
  )
  const mutual = [...arrows].filter((arrow) => {
    const [from = '', to = ''] = arrow.split(' ')
    return from.startsWith('packages/') && from < to && arrows.has(`${to} ${from}`)
  })
  expect(mutual.map((arrow) => arrow.replaceAll('packages/', '')).toSorted()).toEqual(
    mutualFolders.toSorted(),
  )
})

it('no modules import one another, not even types', () => {
  const reachable = (from: string): Set<string> => {
    const seen = new Set<string>()
    const open = [...(imports.get(from) ?? [])]
    for (let file = open.pop(); file !== undefined; file = open.pop()) {
      if (seen.has(file)) continue
      seen.add(file)
      open.push(...(imports.get(file) ?? []))
    }
    return seen
  }
  const inCycles = [...sources.keys()].filter((file) => reachable(file).has(file))
  expect(inCycles).toEqual([])
})

/**
 * What compares documents with the code reads the code; one test runs the agents of all adapters' contracts; the site is shown in the
 * browser of the viewer's tests.
 */
const readers = new Set([
  'test/any-server/agents-under-test.ts',
  'test/documents/site.test.ts',
  'test/repository/command-line.ts',
  'test/repository/configuration-page.test.ts',
])

it('no test imports a file of another package: what they share is in the kit', () => {
  const tests = globSync(['test/**/*.ts', 'packages/*/test/**/*.{ts,tsx}'], {
    cwd: root,
    exclude: ['**/node_modules/**'],
  })
  const home = (file: string): string => /^packages\/[^/]+/.exec(file)?.[0] ?? 'test'
  const reaching = tests.flatMap((file) => {
    const text = readFileSync(path.join(root, file), 'utf8')
    return [...text.matchAll(/^(?:import|export|\}).* from '(\.[^']+)'/gm)]
      .map(([, specifier = '']) => path.join(path.dirname(file), specifier))
      .filter((target) => target.startsWith('packages/') && home(target) !== home(file))
      .map((target) => `${file} imports ${target}`)
  })
  expect(reaching.filter((line) => !readers.has(line.split(' ')[0] ?? ''))).toEqual([])
})

it('AGENTS.md names files and folders that exist', () => {
  const map = readFileSync(path.join(root, 'AGENTS.md'), 'utf8')
  const named = [...map.matchAll(/`((?:packages|test|examples|scripts|docs)\/[^`<]*)`/g)]
  const missing = named.filter(([, name = '']) => globSync(name, { cwd: root }).length === 0)
  expect(named.length).toBeGreaterThan(50)
  expect(missing.map(([, name]) => name)).toEqual([])
})

it('the programs against real trainers name files that exist', () => {
  const named = globSync('scripts/real-trainers/*.py', { cwd: root }).flatMap((file) =>
    [...readFileSync(path.join(root, file), 'utf8').matchAll(/\bROOT \/ "([^"]+)"/g)].map(
      ([, name = '']) => name,
    ),
  )
  expect(named.length).toBeGreaterThan(3)
  const built = /^node_modules\//
  expect(named.filter((name) => !built.test(name) && !existsSync(path.join(root, name)))).toEqual(
    [],
  )
})
