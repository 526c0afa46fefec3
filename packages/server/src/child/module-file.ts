import { existsSync } from 'node:fs'
import path from 'node:path'

/** The file of a module in a folder, which is TypeScript in sources and JavaScript in built packages. */
export function moduleIn(folder: string, name: string): string {
  const source = path.join(folder, `${name}.ts`)
  return existsSync(source) ? source : path.join(folder, `${name}.js`)
}
