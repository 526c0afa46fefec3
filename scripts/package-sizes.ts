// Prints the size of each public package: its tarball, and what `npm install` of it puts on the disk with its
// dependencies, without peers. CONTRIBUTING.md has the table.
//
//   npx -y pnpm@12 exec node scripts/package-sizes.ts
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'

import { startRegistry } from '../test/packed/registry.ts'
import { cleanUp, npmInstall, packAll } from '../test/packed/workspace.ts'

const packed = await packAll()
const rows: (readonly [string, string, string, string])[] = []
const registry = await startRegistry([...packed.values()])
try {
  for (const { name, tarball } of packed.values()) {
    const options = [`--@osmosis:registry=${registry.url}`, '--omit=peer', '--ignore-scripts']
    const modules = path.join(await npmInstall([...options, name]), 'node_modules')
    const lock = await readFile(path.join(modules, '.package-lock.json'), 'utf8')
    const { packages } = JSON.parse(lock) as { packages: object }
    const { size } = await stat(tarball)
    const installed = await sizeOfFolder(modules)
    const count = String(Object.keys(packages).length)
    rows.push([name, (size / 1e3).toFixed(0), (installed / 1e6).toFixed(1), count])
  }
} finally {
  await registry[Symbol.asyncDispose]()
  await cleanUp()
}

console.log('| package | packed (kB) | installed (MB) | packages |\n| --- | --: | --: | --: |')
for (const [name, ...figures] of rows.toSorted(([a], [b]) => a.localeCompare(b))) {
  console.log(`| \`${name}\` | ${figures.join(' | ')} |`)
}

/** Bytes of all files below `folder`; links count nothing. */
async function sizeOfFolder(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(path.join(file.parentPath, file.name))).size),
  )
  return sizes.reduce((total, size) => total + size, 0)
}
