import { existsSync, lstatSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { ScaffoldError } from './scaffold-error.ts'
import type { Files } from './templates.ts'

/**
 * Writes files below a folder, which is made if it is not there. Nothing is overwritten.
 *
 * @throws ScaffoldError, before anything is written, that names what stands in the way
 */
export async function writeNewFiles(root: string, files: Files): Promise<void> {
  const inTheWay = obstacles(root, [...files.keys()])
  if (inTheWay.length > 0) {
    const list = inTheWay.map((name) => `- ${name}\n`).join('')
    throw new ScaffoldError(
      `Nothing was written, because this would be overwritten in ${root}:\n${list}Move it away, or take another name.`,
    )
  }
  for (const [name, text] of files) {
    const file = path.join(root, name)
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, text, { flag: 'wx' })
  }
}

/** What is there under a name of `files`, and files where these need a folder. */
function obstacles(root: string, files: readonly string[]): string[] {
  const found = new Set<string>()
  if (isNotAFolder(root)) return [root]
  for (const name of files) {
    const parts = name.split('/')
    const folders = parts.slice(0, -1).map((_, index) => parts.slice(0, index + 1).join('/'))
    const file = folders.find((folder) => isNotAFolder(path.join(root, folder)))
    if (file !== undefined) found.add(file)
    else if (existsSync(path.join(root, name))) found.add(name)
  }
  return [...found]
}

function isNotAFolder(place: string): boolean {
  const found = lstatSync(place, { throwIfNoEntry: false })
  return found !== undefined && !found.isDirectory() && !found.isSymbolicLink()
}
