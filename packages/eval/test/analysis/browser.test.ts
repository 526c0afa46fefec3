import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, test } from 'vitest'

const entry = path.resolve(import.meta.dirname, '../../src/analysis/index.ts')

/** All modules that the entry imports at run time. */
function runtimeImports(file: string, seen = new Set<string>()): Set<string> {
  seen.add(file)
  const source = readFileSync(file, 'utf8')
  const statements = source.matchAll(
    /^(?:import|export)\b(?! type \{)[^'"]*?from '([^']+)'|import\('([^']+)'\)/gms,
  )
  for (const [, from = '', dynamic = ''] of statements) {
    const name = from === '' ? dynamic : from
    const target = name.startsWith('.') ? path.resolve(path.dirname(file), name) : name
    if (!seen.has(target) && path.isAbsolute(target)) runtimeImports(target, seen)
    else seen.add(target)
  }
  return seen
}

test('the entry imports only files of its own folder, so that a browser can load it', () => {
  const files = runtimeImports(entry)
  expect(files.size).toBeGreaterThan(20)
  const folder = path.dirname(entry) + path.sep
  expect([...files].filter((file) => !file.startsWith(folder))).toEqual([])
})

test('the entry uses no globals of Node.js', () => {
  for (const file of runtimeImports(entry)) {
    expect(readFileSync(file, 'utf8')).not.toMatch(/\b(?:process|Buffer|require|global)\b[.([]/)
  }
})
