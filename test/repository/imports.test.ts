import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

/** What each package may import, as the table of docs/architecture.md has it. */
const table = new Map(
  [...read('docs/architecture.md').matchAll(/^\| ((?:`[\w-]+` ?)+) *\| ([^|]*) \|$/gm)].flatMap(
    ([, packages = '', imports = '']) => namesIn(packages).map((name) => [name, namesIn(imports)]),
  ),
)

function namesIn(cell: string): string[] {
  return [...cell.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name).toSorted()
}

it('the table of imports in docs/architecture.md has a row for every package', () => {
  const manifests = globSync('packages/*/package.json', { cwd: root })
  const packages = manifests.map((file) => path.basename(path.dirname(file)))
  expect([...table.keys()].toSorted()).toEqual(packages.toSorted())
})

describe.each([...table])('%s', (name, allowed) => {
  it('names no other package in its sources, and depends on those that it names', () => {
    const sources = globSync(`packages/${name}/{src,page}/**/*.{ts,tsx}`, { cwd: root })
      .map(read)
      .join('\n')
    const named = new Set(
      [...sources.matchAll(/(?:from|import\(|resolve\()\s*'@osmosis\/([\w-]+)/g)].map(
        ([, other = '']) => other,
      ),
    )
    const manifest = JSON.parse(read(`packages/${name}/package.json`)) as Manifest
    const depends = Object.keys({
      ...manifest.dependencies,
      ...manifest.peerDependencies,
    }).flatMap((key) => key.match(/^@osmosis\/(.*)/)?.[1] ?? [])
    expect([...named].toSorted()).toEqual(depends.toSorted())
    expect(depends.filter((other) => !allowed.includes(other))).toEqual([])
  })
})

// What a framework depends on itself, users have not installed; types count as well.
it.each([
  { name: 'ai-sdk', framework: ['@ai-sdk/openai-compatible', 'ai'] },
  { name: 'langchain', framework: ['@langchain/core'] },
  { name: 'mastra', framework: ['@ai-sdk/provider', '@mastra/core'] },
  { name: 'google-adk', framework: ['@google/adk'] },
  { name: 'openai-agents', framework: ['@openai/agents'] },
  {
    name: 'pi',
    framework: ['@earendil-works/pi-agent-core', '@earendil-works/pi-ai'],
  },
  { name: 'strands', framework: ['@strands-agents/sdk'] },
])('$name imports of its framework only what users install', ({ name, framework }) => {
  const sources = globSync(`packages/${name}/src/**/*.ts`, { cwd: root }).map(read).join('\n')
  const imported = [...sources.matchAll(/ from '([^.'][^']*)'/g)].map(([, module = '']) => module)
  const foreign = imported.filter((module) => !/^(?:node:|@osmosis\/)/.test(module))
  const packages = foreign.map((module) => /^(?:@[^/]+\/)?[^/]+/.exec(module)?.[0] ?? '')
  expect([...new Set(packages)].toSorted()).toEqual(framework)
})

describe('the hosted platform', () => {
  const room = 'packages/cli/src/platform/'
  const sources = globSync('packages/cli/src/**/*.ts', { cwd: root })
  const importsOfRoom = (file: string, imports: RegExp): string[] =>
    [...read(file).matchAll(imports)]
      .map(([, specifier = '']) => path.join(path.dirname(file), specifier))
      .filter((target) => target.startsWith(room))

  it('has all of its code in one room, which others use for their commands, wrong use and login', () => {
    const users = sources
      .filter((file) => !file.startsWith(room))
      .filter((file) => importsOfRoom(file, /(?:from|import\()\s*'(\.[^']+)'/g).length > 0)
    expect(users.toSorted()).toEqual([
      'packages/cli/src/main.ts',
      'packages/cli/src/program.ts',
      'packages/cli/src/serve/serve-agent-loop.ts',
    ])
  })

  it('is not loaded before one of its commands is called, except for their flags', () => {
    const declared = `${room}commands`
    const early = sources
      .filter((file) => !file.startsWith(room) || file.startsWith(declared))
      .flatMap((file) => importsOfRoom(file, /^import (?!type)[^']*?from '(\.[^']+)'/gm))
    expect(early.length).toBeGreaterThan(5)
    expect(early.filter((target) => !target.startsWith(declared))).toEqual([])
  })
})

// Every server, and every worker of a server, is a process of its own, which loads what these files import.
it.each([
  'serve/server-child.ts',
  'serve/serve-command.ts',
  'serve/serve-workflow.ts',
  'serve/serve-agent-loop.ts',
  'child/worker-child.ts',
])('%s loads neither the flags of commands nor what reads evaluations', (file) => {
  const loaded = modulesLoadedBy(`packages/cli/src/${file}`)
  expect(loaded).toContain('@osmosis/core')
  expect(loaded.filter((module) => /^(?:@osmosis\/eval|@?commander)/.test(module))).toEqual([])
})

/** The names of the packages that a file and its relative imports load before their first line runs. */
function modulesLoadedBy(first: string): string[] {
  const files = new Set([first])
  const modules = new Set<string>()
  for (const file of files) {
    for (const [, specifier = ''] of read(file).matchAll(/^import (?!type)[^']*?'([^']+)'/gm)) {
      if (specifier.startsWith('.')) files.add(path.join(path.dirname(file), specifier))
      else modules.add(specifier)
    }
  }
  return [...modules]
}

interface Manifest {
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}
