import { execFile } from 'node:child_process'
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
import { promisify } from 'node:util'

import { frameworkNames, type Framework } from '@osmosis/create'
import { platformProblems } from '@osmosis/eval'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'

import { run } from '../../packages/cli/test/in-process.ts'
import { root } from './command.ts'

const exec = promisify(execFile)
const create = path.join(root, 'packages/create/src/bin.ts')
const command = (name: string): string => path.join(root, 'node_modules/.bin', name)
const [first] = frameworkNames

let parent: string
const advice = new Map<Framework, string>()
const folderOf = (framework: Framework): string => path.join(parent, `my ${framework}`)

beforeAll(async () => {
  parent = mkdtempSync(path.join(tmpdir(), 'osmosis-scaffolds-'))
  for (const framework of frameworkNames) {
    const flags = ['--framework', framework, '--name', 'shop', '--no-install', '--no-git']
    const { stderr } = await exec(process.execPath, [create, folderOf(framework), ...flags])
    advice.set(framework, stderr)
    linkPackages(folderOf(framework))
  }
  return () => rmSync(parent, { recursive: true })
})

/** What the packages of a new workspace would be installed as, from the sources here. */
function linkPackages(folder: string): void {
  const { dependencies, devDependencies } = manifestOf(folder)
  for (const name of Object.keys({ ...dependencies, ...devDependencies })) link(name, folder)
}

function link(name: string, folder: string): void {
  const places = globSync('{.,examples/rollouts/*}/node_modules', { cwd: root })
  const found = places.map((place) => path.join(root, place, name)).find(existsSync)
  if (found === undefined) throw new Error(`${name} is not installed anywhere here`)
  const place = path.join(folder, 'node_modules', name)
  mkdirSync(path.dirname(place), { recursive: true })
  symlinkSync(found, place)
}

/** A package.json. */
interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest
}

// The processes that follow are started once for all workspaces, because they are the same in all.
it('new workspaces differ in no code but the module of their framework, and loops have no grader', () => {
  const filesOf = (framework: Framework): Record<string, unknown> => {
    const cwd = folderOf(framework)
    const files = globSync('**/*.{ts,json,jsonl}', {
      cwd,
      exclude: ['node_modules', '.osmosis', '**/{main,grader}.ts', 'package.json'],
    })
    expect(files).toHaveLength(6)
    const texts = files.map((file) => [file, readFileSync(path.join(cwd, file), 'utf8')])
    return { ...(Object.fromEntries(texts) as object), scripts: manifestOf(cwd).scripts }
  }
  for (const framework of frameworkNames) {
    expect(filesOf(framework)).toEqual(filesOf(first))
    const grader = path.join(folderOf(framework), 'rollouts/shop/grader.ts')
    expect(existsSync(grader)).toBe(framework !== 'agent-loop')
  }
})

it('the reward of a new workspace passes its test', async () => {
  const { stdout } = await exec('npm', ['test'], { cwd: folderOf(first) })
  expect(stdout).toMatch(/pass [1-9]/)
})

it('new workspaces type-check strictly', async () => {
  // One program for all of them, in which each finds its own packages.
  const settings = {
    extends: path.join(folderOf(first), 'tsconfig.json'),
    include: ['*/rollouts', '*/policies'],
  }
  writeFileSync(path.join(parent, 'tsconfig.json'), JSON.stringify(settings))
  link('@types/node', parent)
  const { stdout } = await exec(command('tsc'), ['--listFiles'], { cwd: parent })
  for (const framework of frameworkNames) {
    expect(stdout).toContain(path.join(folderOf(framework), 'rollouts/shop/main.ts\n'))
  }
})

describe.each(frameworkNames)('a new workspace of %s', (framework) => {
  it('has failing rows to look at, and nothing to be found by checks', async () => {
    const next = 'npm install\n  npx osmosis eval run configs/eval/shop.toml'
    expect(advice.get(framework)).toContain(next)
    const folder = folderOf(framework)
    process.chdir(folder)
    onTestFinished(() => process.chdir(root))
    const evaluated = await run(['eval', 'run', 'configs/eval/shop.toml', '--name', 'first'])
    expect(evaluated.code).toBe(0)
    expect(summaryOf(path.join(folder, '.osmosis/evals/first'))).toMatchObject({
      total_samples: 48,
      completed_samples: 48,
      graded: 48,
      passed: 25,
      failed: 0,
    })

    const [, show = ''] = /npx osmosis (eval show .*)/.exec(advice.get(framework) ?? '') ?? []
    const { stdout } = await run(show.split(' '))
    expect(stdout).toContain('#### 13.25')
    expect(stdout).toContain('11.1  reward 0, not passed\n')

    const checks = await run(['rollout', 'validate', '--json'])
    expect(checks.code).toBe(0)
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

function summaryOf(results: string): unknown {
  const text = readFileSync(path.join(results, 'metrics.json'), 'utf8')
  return (JSON.parse(text) as { summary: unknown }).summary
}
