import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { frameworkNames, main, type Framework } from '@osmosis/create'
import { platformProblems } from '@osmosis/eval'
import { beforeAll, expect, vi } from 'vitest'

import { root } from './command.ts'
import { osmosis } from './osmosis.ts'

/** The frameworks that are installed here; programs of 370 MB and more are not, see test/programs. */
export const installedFrameworks = frameworkNames.filter(
  (name) => name !== 'claude-agent-sdk' && name !== 'codex',
) as [Framework, ...Framework[]]

/** Where the workspaces of these tests are, after {@link makeWorkspaces}. */
let parent: string
const advice = new Map<Framework, string>()

/** Where the workspace of a framework is. */
export const folderOf = (framework: Framework): string => path.join(parent, `my ${framework}`)

/** Gives the tests of a file a new workspace of each framework. */
export function makeWorkspaces(): void {
  beforeAll(async () => {
    parent = mkdtempSync(path.join(tmpdir(), 'osmosis-scaffolds-'))
    for (const framework of installedFrameworks) {
      const flags = ['--framework', framework, '--name', 'shop', '--no-install', '--no-git']
      let said = ''
      const spy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
        said += String(text)
        return true
      })
      const code = await main([folderOf(framework), ...flags], {}).finally(() => spy.mockRestore())
      expect(code).toBe(0)
      advice.set(framework, said)
      linkPackages(folderOf(framework))
    }
    return () => rmSync(parent, { recursive: true })
  })
}

/** What the packages of a new workspace would be installed as, from the sources here. */
function linkPackages(folder: string): void {
  const { dependencies, devDependencies } = manifestOf(folder)
  for (const name of Object.keys({ ...dependencies, ...devDependencies })) link(name, folder)
}

/** Installs a package in a folder, from what is installed here. */
function link(name: string, folder: string): void {
  const places = globSync('{.,examples/rollouts/*,packages/*}/node_modules', { cwd: root })
  const found = places.map((place) => path.join(root, place, name)).find(existsSync)
  if (found === undefined) throw new Error(`${name} is not installed anywhere here`)
  const place = path.join(folder, 'node_modules', name)
  mkdirSync(path.dirname(place), { recursive: true })
  symlinkSync(found, place)
}

/** A package.json. */
export interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
}

/** The package.json of a workspace. */
export function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest
}

/** The counts of an evaluation of a new workspace. */
export const countsOfShop = {
  total_samples: 48,
  completed_samples: 48,
  graded: 48,
  passed: 25,
  failed: 0,
}

/** Follows the advice for a new workspace, and resolves with the counts of the evaluation. */
export async function followAdvice(framework: Framework): Promise<unknown> {
  const said = advice.get(framework) ?? ''
  expect(said).toContain('npm install\n  npx osmosis eval run configs/eval/shop.toml')
  const folder = folderOf(framework)
  const config = ['eval', 'run', 'configs/eval/shop.toml', '--name', 'first']
  const evaluated = await osmosis(config, folder)
  expect(evaluated.code).toBe(0)

  const [, show = ''] = /npx osmosis (eval show .*)/.exec(said) ?? []
  const { stdout, stderr } = await osmosis(show.split(' '), folder)
  expect(stderr).toBe('')
  expect(stdout).toContain('#### 13.25')
  expect(stdout).toContain('11.1  reward 0, not passed\n')
  return summaryOf(path.join(folder, '.osmosis/evals/first'))
}

/** Corrects the instructions as the quickstart does, and resolves with the comparison of both evaluations. */
export async function correctInstructions(framework: Framework): Promise<string> {
  const folder = folderOf(framework)
  const guide = readFileSync(path.join(root, 'docs/get-started/quickstart.md'), 'utf8')
  const [, before = '', after = ''] =
    /^sed -i\.bak 's\/(.+)\/(.+)\/' \S+main\.ts$/m.exec(guide) ?? []
  const file = path.join(folder, 'rollouts/shop/main.ts')
  const text = readFileSync(file, 'utf8')
  expect(text).toContain(before)
  writeFileSync(file, text.replace(before, after))
  const config = ['eval', 'run', 'configs/eval/shop.toml', '--name', 'second']
  expect((await osmosis(config, folder, 'process')).code).toBe(0)
  const { stdout, stderr } = await osmosis(['eval', 'compare', 'first', 'second'], folder)
  expect(stderr).toBe('')
  return stdout
}

/** The problems that the checks of a workspace find. */
export async function problemsOf(framework: Framework): Promise<unknown[]> {
  const folder = folderOf(framework)
  const checks = await osmosis(['validate', '--json'], folder)
  expect(checks.code).toBe(0)
  const { rollouts } = JSON.parse(checks.stdout) as {
    rollouts: [{ findings: { level: string }[] }]
  }
  const found = (['eval', 'training'] as const).flatMap((kind) => {
    const config = readFileSync(path.join(folder, 'configs', kind, 'shop.toml'), 'utf8')
    return platformProblems(kind, config)
  })
  return [...rollouts[0].findings.filter(({ level }) => level !== 'ok'), ...found]
}

function summaryOf(results: string): unknown {
  const text = readFileSync(path.join(results, 'metrics.json'), 'utf8')
  return (JSON.parse(text) as { summary: unknown }).summary
}
