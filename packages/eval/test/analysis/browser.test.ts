import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, test } from 'vitest'

const entry = path.resolve(import.meta.dirname, '../../src/analysis/index.ts')

/** Every file that the entry needs at run time, and whatever is not one of its folder. */
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

test('the entry can be loaded by a browser: it imports nothing but files of its own folder', () => {
  const files = runtimeImports(entry)
  expect(files.size).toBeGreaterThan(20)
  expect([...files].filter((file) => path.dirname(file) !== path.dirname(entry))).toEqual([])
})

test('and names nothing that only Node.js has', () => {
  for (const file of runtimeImports(entry)) {
    expect(readFileSync(file, 'utf8')).not.toMatch(/\b(?:process|Buffer|require|global)\b[.([]/)
  }
})
