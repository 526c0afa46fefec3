import { readdirSync, readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

test('of the SDK only packages that users have installed are imported, also by types', () => {
  const folder = new URL('../src/', import.meta.url)
  const imported = readdirSync(folder).flatMap((file) => {
    const source = readFileSync(new URL(file, folder), 'utf8')
    return [...source.matchAll(/ from '([^.'][^']*)'/g)].map(([, name]) => name)
  })
  const packages = [...new Set(imported)].filter((name) => !name?.startsWith('node:'))
  expect(packages.map(String).toSorted((a, b) => a.localeCompare(b))).toEqual([
    '@ai-sdk/openai-compatible',
    '@osmosis/core',
    '@osmosis/core/policy',
    '@osmosis/core/tracing',
    '@osmosis/core/wire',
    'ai',
  ])
})
