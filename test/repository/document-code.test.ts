import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'

import { temporaryFolder } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { blocksOf, documents, importsOf, packageOf, root } from './documents.ts'

/** Puts packages where programs in `folder` find them, from wherever the workspace has them. */
function linkPackages(folder: string, names: Iterable<string>): void {
  const places = globSync('{.,packages/*,examples/rollouts/*}/node_modules', { cwd: root })
  for (const name of names) {
    const own = name.replace(/^@osmosis\//, 'packages/')
    const found = [own, ...places.map((place) => path.join(place, name))].find((place) =>
      existsSync(path.join(root, place)),
    )
    if (found === undefined) throw new Error(`${name} is not installed anywhere here`)
    const link = path.join(folder, 'node_modules', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(path.join(root, found), link)
  }
}

it('every program of the documents type-checks strictly', async () => {
  const folder = await temporaryFolder()
  const programs = documents.flatMap((document) => blocksOf(document, 'ts'))
  for (const { document, line, file, text } of programs) {
    // Line numbers of errors are those of the document. Programs of one document may import others.
    const place = path.join(folder, document, file ?? `line-${line}.ts`)
    mkdirSync(path.dirname(place), { recursive: true })
    writeFileSync(place, '\n'.repeat(line - 1) + text)
  }
  const imported = programs.flatMap(({ text }) => importsOf(text).map(({ specifier }) => specifier))
  const packages = imported.filter((name) => !isBuiltin(name)).map(packageOf)
  linkPackages(folder, new Set(['@types/node', ...packages]))
  const config = {
    extends: path.join(root, 'tsconfig.base.json'),
    compilerOptions: {
      noEmit: true,
      moduleDetection: 'force',
      allowImportingTsExtensions: true,
      // Documents declare things to show them.
      noUnusedLocals: false,
      noUnusedParameters: false,
    },
    include: ['**/*.ts'],
  }
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config))
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')

  const tsc = path.join(root, 'node_modules/.bin/tsc')
  const { stdout } = spawnSync(tsc, ['--pretty', 'false'], { cwd: folder, encoding: 'utf8' })
  expect(stdout.split('\n').filter(Boolean)).toEqual([])
  expect(programs.length).toBeGreaterThan(20)
})
