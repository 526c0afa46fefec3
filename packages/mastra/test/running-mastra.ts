import { readFileSync } from 'node:fs'

import { inject } from 'vitest'

/** False on the oldest version that the package supports. */
export const isNewestMastra = !inject('lowestFrameworks')

/** Version of an installed package. */
export function versionOf(name: string): string {
  return (readJson(`../node_modules/${name}/package.json`) as { version: string }).version
}

/** A JSON file, by its path from this folder. */
export function readJson(path: string): unknown {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
}
