import { cpSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { osmosis, temporaryFolder, workspace } from './osmosis.ts'

// Node.js takes such files for CommonJS, and sees few or none of the names they export.
it.each([
  ['server.ts:agentLoop', 'no package.json', undefined, "export * from './adder.ts'"],
  ['server.ts', 'no type', {}, "export { agentLoop as default } from './adder.ts'"],
])('finds the exports of %s in a folder with %s', async (spec, _, manifest, program) => {
  const folder = temporaryFolder()
  const modules = path.resolve(import.meta.dirname, '../node_modules')
  symlinkSync(modules, path.join(folder, 'node_modules'), 'junction')
  cpSync(path.join(workspace, 'rollouts/agent-loops/adder.ts'), path.join(folder, 'adder.ts'))
  writeFileSync(path.join(folder, 'server.ts'), program)
  if (manifest) writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest))

  const { code, stdout } = await osmosis(['validate', '-m', spec], {}, folder)
  expect([code, stdout]).toEqual([0, expect.stringContaining("the agent loop 'adder' with 1 tool")])
})
