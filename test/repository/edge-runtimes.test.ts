import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

import { expect, it } from 'vitest'

const require = createRequire(import.meta.url)
const packages = path.resolve(import.meta.dirname, '../../packages')

/** What programs for users import. */
const imported = [
  'ai-sdk',
  'core',
  'google-adk',
  'langchain',
  'mastra',
  'openai-agents',
  'pi',
  'strands',
]

it.each(imported)('%s says in edge runtimes and browsers that it needs Node.js', (name) => {
  const folder = path.join(packages, name)
  const { publishConfig } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as {
    publishConfig: { exports: Record<string, string | Record<string, string>> }
  }
  const entries = Object.values(publishConfig.exports).filter((entry) => typeof entry !== 'string')
  expect(entries.length).toBeGreaterThan(0)
  for (const entry of entries) {
    // Conditions are tried in their order.
    expect(Object.keys(entry)).toEqual(['types', 'edge-light', 'workerd', 'browser', 'default'])
    expect(new Set([entry['edge-light'], entry['workerd'], entry['browser']])).toEqual(
      new Set(['./src/edge.cjs']),
    )
  }
  expect(() => require(path.join(folder, 'src/edge.cjs')) as unknown).toThrow(
    `@osmosis/${name} needs Node.js, and this is an edge runtime or a browser.`,
  )
})
