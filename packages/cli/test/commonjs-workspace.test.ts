// @module-tag slow
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { osmosis, temporaryFolder, workspace } from './osmosis.ts'

// Node.js takes such files for CommonJS, and sees few or none of the names they export.
it.each([
  ['server.ts', 'what npm init writes', { type: 'commonjs' }, "export * from './adder.ts'"],
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

// Before 24.12, Node.js lets no hook pass packages by.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const isTooOld = major < 24 || (major === 24 && minor < 12)

onlyIf(!isTooOld, 'a Node.js of 24.12 or newer').it(
  `runs packages as Node.js does, and only modules of the user as TypeScript`,
  async () => {
    const folder = temporaryFolder()
    const old = path.join(folder, 'node_modules/old')
    mkdirSync(path.join(folder, 'node_modules/@osmosis'), { recursive: true })
    mkdirSync(old)
    const agentLoop = path.resolve(import.meta.dirname, '../../agent-loop')
    symlinkSync(agentLoop, path.join(folder, 'node_modules/@osmosis/agent-loop'), 'junction')
    writeFileSync(path.join(old, 'package.json'), '{ "type": "module", "exports": "./index.js" }')
    writeFileSync(path.join(old, 'old.cjs'), 'exports.__esModule = true\nexports.default = {}')
    const program = "export const names = Object.keys((await import('./old.cjs')).default)"
    writeFileSync(path.join(old, 'index.js'), program)
    writeFileSync(
      path.join(folder, 'server.ts'),
      `import { RolloutAgentLoop } from '@osmosis/agent-loop'
import { names } from 'old'
export const loop = new (class extends RolloutAgentLoop {
  readonly name = names.join(' ')
  getTools() { return [] }
  async run(ctx: any) { return ctx.complete([]) }
})()`,
    )
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')
    expect((await osmosis(['validate', '-m', 'server.ts'], {}, folder)).stdout).toContain(
      "the agent loop '__esModule default' with 0 tools",
    )
  },
)
