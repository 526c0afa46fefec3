import { writeFileSync } from 'node:fs'
import path from 'node:path'

/** What modules import in folders that have no packages. */
export const core = path.resolve(import.meta.dirname, '../node_modules/@osmosis/core/src/index.ts')

/** Writes a module, and returns its file. */
export function moduleIn(folder: string, name: string, text: string): string {
  const file = path.join(folder, name)
  writeFileSync(file, text)
  return file
}
