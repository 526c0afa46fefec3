import { execFile } from 'node:child_process'
import { globSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

const root = path.resolve(import.meta.dirname, '../..')

/** Installs packages of the registry in a folder, and the packages of this repository beside them. */
export async function installIn(folder: string, words: readonly string[]): Promise<void> {
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module", "private": true }')
  const wanted = words.filter((word) => !word.startsWith('@osmosis/'))
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', ...wanted], {
    cwd: folder,
  })
  const scope = path.join(folder, 'node_modules/@osmosis')
  mkdirSync(scope)
  for (const own of globSync('packages/*', { cwd: root })) {
    symlinkSync(path.join(root, own), path.join(scope, path.basename(own)))
  }
}
