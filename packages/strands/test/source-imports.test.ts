import { readdirSync, readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

test('of the SDK only the package that users install is imported', () => {
  const folder = new URL('../src/', import.meta.url)
  const imported = readdirSync(folder).flatMap((file) => {
    const source = readFileSync(new URL(file, folder), 'utf8')
    return [...source.matchAll(/ from '([^.'][^']*)'/g)].map(([, name]) => name)
  })
  const packages = [...new Set(imported)].filter((name) => !name?.startsWith('node:'))
  expect(packages.map(String).toSorted((a, b) => a.localeCompare(b))).toEqual([
    '@osmosis/core',
    '@osmosis/core/policy',
    '@osmosis/core/tracing',
    '@osmosis/core/wire',
    '@strands-agents/sdk',
  ])
})
