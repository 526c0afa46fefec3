import { execFile } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { frameworkNames } from '@osmosis/create'
import { platformProblems } from '@osmosis/eval'
import { temporaryFolder } from '@osmosis/testing/kit'
import { describe, expect, it } from 'vitest'

import { root } from './command.ts'

const exec = promisify(execFile)
const create = path.join(root, 'packages/create/src/bin.ts')
const command = (name: string): string => path.join(root, 'node_modules/.bin', name)

/** What the packages of a new workspace would be installed as, from the sources here. */
function linkPackages(folder: string): void {
  const places = globSync('{.,examples/rollouts/*}/node_modules', { cwd: root })
  const manifest = readFileSync(path.join(folder, 'package.json'), 'utf8')
  const { dependencies, devDependencies } = JSON.parse(manifest) as Record<string, object>
  for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
    const found = places.map((place) => path.join(root, place, name)).find(existsSync)
    if (found === undefined) throw new Error(`${name} is not installed anywhere here`)
    const link = path.join(folder, 'node_modules', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(found, link)
  }
}

describe.each(frameworkNames)('a new workspace of %s', (framework) => {
  it('type-checks strictly, tests its reward, and has failing rows to look at', async () => {
    const folder = path.join(await temporaryFolder(), 'my agent')
    const flags = ['--framework', framework, '--name', 'shop', '--no-install', '--no-git']
    const { stderr } = await exec(process.execPath, [create, folder, ...flags])
    expect(stderr).toContain('npm install\n  npx osmosis eval run configs/eval/shop.toml')
    linkPackages(folder)
    const inFolder = { cwd: folder }

    await exec(command('tsc'), [], inFolder)
    await exec('npm', ['test'], inFolder)
    const run = ['eval', 'run', 'configs/eval/shop.toml', '--name', 'first']
    await exec(command('osmosis'), run, inFolder)
    expect(summaryOf(path.join(folder, '.osmosis/evals/first'))).toMatchObject({
      total_samples: 48,
      completed_samples: 48,
      graded: 48,
      passed: 25,
      failed: 0,
    })

    const checks = await exec(command('osmosis'), ['rollout', 'validate', '--json'], inFolder)
    const { rollouts } = JSON.parse(checks.stdout) as {
      rollouts: { findings: { level: string }[] }[]
    }
    expect(rollouts[0]?.findings.filter(({ level }) => level !== 'ok')).toEqual([])

    for (const kind of ['eval', 'training'] as const) {
      const config = readFileSync(path.join(folder, 'configs', kind, 'shop.toml'), 'utf8')
      expect(platformProblems(kind, config)).toEqual([])
    }
  })
})

function summaryOf(run: string): unknown {
  const text = readFileSync(path.join(run, 'metrics.json'), 'utf8')
  return (JSON.parse(text) as { summary: unknown }).summary
}
