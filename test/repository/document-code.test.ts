import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import path from 'node:path'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'
import { blocksOf, documents, linkPackages, root } from './documents.ts'

const programs = documents.flatMap((document) => blocksOf(document, 'ts'))

it('every program of the documents is TypeScript that Node.js runs as it is', () => {
  expect(programs.length).toBeGreaterThan(20)
  const wrong = programs.flatMap(({ document, line, text }) => {
    try {
      stripTypeScriptTypes(text)
      return []
    } catch (error) {
      return [`${document}:${line}: ${String(error)}`]
    }
  })
  expect(wrong).toEqual([])
})

it(
  'every program of the documents type-checks strictly',
  { tags: 'slow', timeout: 600_000 },
  async () => {
    const folder = await temporaryFolder()
    for (const { document, line, file, text } of programs) {
      // Line numbers of errors are those of the document. Programs of one document may import others.
      const place = path.join(folder, document, file ?? `line-${line}.ts`)
      mkdirSync(path.dirname(place), { recursive: true })
      writeFileSync(place, '\n'.repeat(line - 1) + text)
    }
    linkPackages(folder)
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
      // First, as in the tsconfig.json here: langgraph extends the types of zod as zod-to-openapi does.
      files: ['first.ts'],
    }
    writeFileSync(path.join(folder, 'first.ts'), "import '@langchain/langgraph/zod'\n")
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config))
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')

    // One checker: each one more checks again what several of them need, which is most of it.
    const tsc = path.join(root, 'node_modules/.bin/tsc')
    const { stdout } = spawnSync(tsc, ['--pretty', 'false', '--checkers', '1'], {
      cwd: folder,
      encoding: 'utf8',
    })
    expect(stdout.split('\n').filter(Boolean)).toEqual([])
    expect(programs.length).toBeGreaterThan(20)
  },
)
