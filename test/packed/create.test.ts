import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { frameworkNames } from '@osmosis/create'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'

import { startRegistry, type Registry } from './registry.ts'
import { cleanUp, temporaryFolder, withoutScriptVariables } from './workspace.ts'

let registry: Registry
let environment: NodeJS.ProcessEnv

beforeAll(async () => {
  registry = await startRegistry(inject('packed'))
  // Our packages come from this machine, everything else from where it always does.
  const settings = await readFile(path.join(homedir(), '.npmrc'), 'utf8').catch(() => '')
  const file = path.join(await temporaryFolder(), 'npmrc')
  await writeFile(file, `${settings}\n@osmosis:registry=${registry.url}\nyes=true\n`, {
    mode: 0o600,
  })
  environment = { ...withoutScriptVariables(), npm_config_userconfig: file }
})

afterAll(async () => {
  await registry[Symbol.asyncDispose]()
  await cleanUp()
})

const starts = {
  npm: 'npm create @osmosis@latest my-agent -- --framework',
  pnpm: 'pnpm create @osmosis@latest my-agent --framework',
}

describe.each(Object.entries(starts))('from an empty folder with %s', (manager, start) => {
  it.each(frameworkNames)(
    'to the failing rows of %s, without editing a file',
    async (framework) => {
      const folder = await temporaryFolder()
      await inFolder(folder, `${start} ${framework}`)
      const workspace = path.join(folder, 'my-agent')
      await inFolder(workspace, 'npx osmosis eval run configs/eval/my-agent.toml --name first')

      const { summary } = JSON.parse(
        await readFile(path.join(workspace, '.osmosis/evals/first/metrics.json'), 'utf8'),
      ) as { summary: object }
      expect(summary).toMatchObject({ total_samples: 48, graded: 48, passed: 25 })

      await inFolder(workspace, `${manager} run typecheck`)
      await inFolder(workspace, `${manager} test`)
    },
  )
})

async function inFolder(folder: string, command: string): Promise<string> {
  const [program = '', ...args] = command.split(' ')
  const { stdout } = await promisify(execFile)(program, args, { cwd: folder, env: environment })
  return stdout
}
