import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { afterAll, expect, inject, it } from 'vitest'

import { strictConsumers } from './strict-consumers.ts'
import { cleanUp, npmInstall, run, tarballsOf } from './workspace.ts'

const tarballs = tarballsOf(inject('packed'))

afterAll(cleanUp)

it.each(strictConsumers)(
  'type-checks in a strict consumer of %j with TypeScript 5.9 and ES2023, declarations included',
  async (names, program) => {
    // What is not ours is an optional peer.
    const others = names.filter((name) => !name.startsWith('@osmosis/'))
    const tools = ['@types/node@22', 'typescript@5.9']
    const folder = await npmInstall([...tarballs(...names), ...others, ...tools])
    await writeFile(path.join(folder, 'main.ts'), program)
    expect(await problemsOf(folder)).toEqual([])
  },
)

/**
 * What the TypeScript that is installed in a folder says of `main.ts` and of our own declarations. The newest
 * one checks what `create` makes.
 */
async function problemsOf(folder: string): Promise<string[]> {
  const flags = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--types', 'node']
  const target = ['--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023']
  const tsc = path.join(folder, 'node_modules/.bin/tsc')
  const output = await run(folder, tsc, [...flags, ...target, 'main.ts']).catch(
    (error: { stdout: string }) => error.stdout,
  )
  return output.split('\n').filter((line) => /^(main\.ts|node_modules\/@osmosis)/.test(line))
}
