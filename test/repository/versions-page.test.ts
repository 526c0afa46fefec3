import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

import { read, root, section } from './documents.ts'

const page = read('docs/reference/versions.md')

const manifests = globSync('packages/*/package.json', { cwd: root }).map((file) =>
  z
    .object({
      name: z.string(),
      engines: z.object({ node: z.string() }).optional(),
      peerDependencies: z.record(z.string(), z.string()).default({}),
    })
    .parse(JSON.parse(readFileSync(path.join(root, file), 'utf8'))),
)
const { catalogs } = z
  .object({ catalogs: z.record(z.string(), z.record(z.string(), z.string())) })
  .parse(parse(read('pnpm-workspace.yaml')))

/** The cells of the table below a heading, without the marks of code. */
function rowsOf(heading: string): string[][] {
  return section(page, heading)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', '')),
    )
}

it('the page has the range of each framework, and the versions that its tests install', () => {
  const adapters = manifests.filter(({ name }) =>
    /^@osmosis\/(?:openai-agents|strands|ai-sdk|langchain|mastra|google-adk|pi)$/.test(name),
  )
  const { frameworks = {}, 'langchain-lowest': langchain = {} } = catalogs
  const expected = adapters.flatMap(({ peerDependencies }) =>
    Object.entries(peerDependencies)
      .filter(([name]) => Object.hasOwn(frameworks, name))
      .map(([name, range]) => {
        const newest = frameworks[name] ?? ''
        const lowest = frameworks[`${name}-lowest`]?.split('@').at(-1) ?? langchain[name] ?? newest
        return [name, range, lowest, newest]
      }),
  )
  expect(expected.length).toBeGreaterThan(6)
  const byName = (rows: string[][]): string[][] =>
    rows.toSorted(([a = ''], [b = '']) => a.localeCompare(b))
  expect(byName(rowsOf('Frameworks'))).toEqual(byName(expected))
})

it('the page has the oldest Node.js, and the Python packages of the learner', () => {
  const promised = manifests.flatMap(({ engines }) => engines?.node ?? [])
  expect([...new Set(promised)]).toEqual(['>=22.19'])
  expect(rowsOf('Node.js')[0]?.[0]).toBe('22.19.0')
  const [, list = '[]'] =
    /^# dependencies = (\[.*\])$/m.exec(read('packages/train/learner/learner.py')) ?? []
  const pinned = read('test/python/learner-requirements.txt')
  const expected = (JSON.parse(list) as string[]).map((dependency) => {
    const [name = '', range = ''] = dependency.split('==')
    return [name, range, new RegExp(`^${name}==(\\S+)`, 'm').exec(pinned)?.[1]]
  })
  expect(rowsOf('Python')).toEqual(expected)
})
