import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { builtinModules } from 'node:module'
import path from 'node:path'

import {
  exampleFiles,
  frameworkNames,
  main,
  packageManagerOf,
  packageManagers,
  rolloutNameProblem,
} from '@osmosis/create'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'

interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command in this process, without a terminal. */
async function create(
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<Finished> {
  const output = { stdout: '', stderr: '' }
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      output[name] += String(text)
      return true
    }),
  )
  const release = (): void => spies.forEach((spy) => spy.mockRestore())
  onTestFinished(release)
  try {
    return { code: await main(args, environment), ...output }
  } finally {
    release()
  }
}

const quietly = ['--no-install', '--no-git']

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .toSorted()
}

it('says which file cannot be written, and leaves nothing in the way of the next attempt', async () => {
  const folder = await temporaryFolder()
  const link = path.join(folder, 'rollouts')
  symlinkSync(path.join(folder, 'nowhere', 'at', 'all'), link)
  const args = [folder, '--framework', 'strands', '--name', 'shop', ...quietly]
  const { code, stderr } = await create(args)
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /^error: Nothing was written, because .*rollouts.* cannot be written: E\w+: /,
    ),
  ])
  expect(readdirSync(folder)).toEqual(['rollouts'])
  rmSync(link)
  expect((await create(args)).code).toBe(0)
})

it('says that a folder below a file cannot be made', async () => {
  const file = path.join(await temporaryFolder(), 'notes.txt')
  writeFileSync(file, '')
  const args = [path.join(file, 'shop'), '--framework', 'strands', ...quietly]
  expect(await create(args)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^error: Nothing was written, because .*package\.json cannot be written: E\w+: /,
    ),
  })
})

it('makes a whole workspace, with the rollout named after the folder', async () => {
  const folder = path.join(await temporaryFolder(), 'My Shop')
  const { code, stderr } = await create([folder, '--framework', 'strands', ...quietly])
  expect(code).toBe(0)
  expect(stderr).toContain(
    '  npx osmosis eval run configs/eval/my-shop.toml\n  npx osmosis eval show latest 11.1\n',
  )
  expect(filesIn(folder)).toEqual([
    '.dockerignore',
    '.gitignore',
    'AGENTS.md',
    'README.md',
    'configs/eval/my-shop.toml',
    'configs/training/my-shop.toml',
    'data/my-shop.jsonl',
    'osmosis.toml',
    'package.json',
    'policies/my-shop.ts',
    'rollouts/my-shop/grader.ts',
    'rollouts/my-shop/main.ts',
    'rollouts/my-shop/prices.ts',
    'rollouts/my-shop/reward.test.ts',
    'rollouts/my-shop/reward.ts',
    'tsconfig.json',
  ])
  const all = filesIn(folder).map((file) => readFileSync(path.join(folder, file), 'utf8'))
  expect(all.filter((text) => /__\w+__|\{\{\w+\}\}/.test(text))).toEqual([])
  expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toMatch(/^# My Shop\n/)
  expect(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))).toMatchObject({
    name: 'my-shop',
    private: true,
    type: 'module',
  })
})

it.each(frameworkNames)('the workspace of %s installs what its files import', async (framework) => {
  const folder = path.join(await temporaryFolder(), 'shop')
  expect(await create([folder, '--framework', framework, ...quietly])).toMatchObject({ code: 0 })
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(path.join(folder, 'package.json'), 'utf8'),
  ) as Record<'dependencies' | 'devDependencies', Record<string, string>>
  const imported = filesIn(folder)
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => [
      ...readFileSync(path.join(folder, file), 'utf8').matchAll(/ from '((?:@[\w-]+\/)?[\w-]+)/g),
    ])
    .map(([, name = '']) => name)
    .filter((name) => !builtinModules.includes(name) && name !== 'node')
  expect(Object.keys({ ...dependencies, ...devDependencies })).toEqual(
    expect.arrayContaining(imported),
  )
  expect(imported).toContain('@osmosis/controller')
})

it('makes what pnpm needs when pnpm runs it, and a repository unless there is one', async () => {
  const folder = await temporaryFolder()
  const pnpm = { npm_config_user_agent: 'pnpm/12.21.0 npm/? node/v24.21.0 linux x64' }
  const { stderr } = await create([folder, '--yes', '--no-install'], pnpm)
  expect(stderr).toContain('pnpm install\n')
  expect(readFileSync(path.join(folder, 'pnpm-workspace.yaml'), 'utf8')).toContain(
    "'esbuild': false",
  )
  expect(readdirSync(folder)).toContain('.git')

  const inside = path.join(folder, 'inside')
  await create([inside, '--yes', '--no-install', '--package-manager', 'npm'], pnpm)
  expect(readdirSync(inside)).not.toContain('.git')
  expect(readdirSync(inside)).not.toContain('pnpm-workspace.yaml')
})

it('overwrites nothing and names existing files', async () => {
  const folder = await temporaryFolder({
    'README.md': '# Mine',
    rollouts: 'not a folder',
    'notes.txt': 'not in the way',
  })
  mkdirSync(path.join(folder, 'osmosis.toml'))
  const { code, stderr } = await create([folder, '--yes', '--name', 'shop', ...quietly])
  expect(code).toBe(2)
  expect(stderr).toMatch(
    /^error: Nothing was written.*:\n- README\.md\n- osmosis\.toml\n- rollouts\nMove them away, /,
  )
  expect(readdirSync(folder).toSorted()).toEqual([
    'README.md',
    'notes.txt',
    'osmosis.toml',
    'rollouts',
  ])
})

it('says how a rollout is added to a project that is there', async () => {
  const folder = await temporaryFolder({ 'package.json': '{}' })
  const { code, stderr } = await create([folder, '--name', 'shop', '--framework', 'strands'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/^error: Nothing was written: .* has a package\.json.*--existing/)
  expect(stderr.trimEnd().split('\n').slice(-2)).toEqual([
    '  npm install --save-dev @osmosis/cli',
    '  npx osmosis rollout init shop --framework strands',
  ])
  expect(readdirSync(folder)).toEqual(['package.json'])
})

it('refuses a file instead of a folder', async () => {
  const file = path.join(await temporaryFolder({ shop: '' }), 'shop')
  const { code, stderr } = await create([file, '--yes', ...quietly])
  expect(code).toBe(2)
  expect(stderr).toContain(file)
})

it('names missing options without a terminal', async () => {
  const { code, stderr } = await create([])
  expect(code).toBe(2)
  expect(stderr).toContain(`pass a folder and --framework ${frameworkNames.join(' | ')}`)
})

it.each([
  [
    ['x', '--framework', 'crewai'],
    `--framework must be ${frameworkNames.join(', ')}; got "crewai"`,
  ],
  [
    ['x', '--package-manager', 'make'],
    '--package-manager must be one of npm, pnpm, yarn, bun; got "make"',
  ],
  [['x', 'strands'], 'npm create @osmosis@latest x -- --framework strands'],
  [['x', '--nmae', 'y'], "Unknown option '--nmae'"],
  [['x', '--name', 'My Agent'], 'e.g. my-agent; got "My Agent"'],
  [['a'.repeat(300), '--framework', 'pi'], 'at most 255 bytes; got 300: aaaaaaaaaaaaaaaaaaaa…'],
  [[`${'ä'.repeat(128)}/x`, '--framework', 'pi'], 'at most 255 bytes; got 256'],
])('refuses %j', async (args, message) => {
  const { code, stderr } = await create(args)
  expect(code).toBe(2)
  expect(stderr).toContain(message)
})

describe('the package manager of a project', () => {
  const byNpm = { npm_config_user_agent: 'npm/11.0.0 node/v24.21.0 linux x64' }

  it.each([
    [{ 'pnpm-lock.yaml': '' }, 'pnpm'],
    [{ 'yarn.lock': '' }, 'yarn'],
    [{ 'bun.lock': '' }, 'bun'],
    [{ 'bun.lockb': '' }, 'bun'],
    [{ 'package-lock.json': '' }, 'npm'],
    [{ 'package.json': '{ "packageManager": "yarn@4.18.1" }', 'package-lock.json': '' }, 'yarn'],
    [{ 'package.json': '{ "packageManager": 7 }', 'bun.lock': '' }, 'bun'],
    [{ 'package.json': 'no JSON' }, 'npm'],
    [{}, 'npm'],
  ])('with %j is %s', async (files, manager) => {
    const root = await temporaryFolder()
    mkdirSync(path.join(root, '.git'))
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(root, name), text)
    expect(packageManagerOf(root, byNpm)).toBe(manager)
    const inside = path.join(root, 'packages/agent')
    mkdirSync(inside, { recursive: true })
    expect(packageManagerOf(inside, byNpm)).toBe(manager)
  })

  it('is the one that runs the command where nothing else says', async () => {
    const root = await temporaryFolder()
    mkdirSync(path.join(root, '.git'))
    for (const manager of packageManagers) {
      const environment = { npm_config_user_agent: `${manager}/1.2.3 npm/? node/v24.21.0` }
      expect(packageManagerOf(root, environment)).toBe(manager)
    }
  })
})

describe('the name of a rollout', () => {
  it.each(['a', 'price-check', '2048', 'a'.repeat(64)])('can be %s', (name) => {
    expect(rolloutNameProblem(name)).toBeUndefined()
  })

  it.each(['', '-a', 'a-', 'a b', 'A', 'ä', '..', 'a/b', 'a\\b', 'con', 'lpt1', 'a'.repeat(65)])(
    'cannot be "%s"',
    (name) => {
      expect(rolloutNameProblem(name)).toMatch(/rollout/)
    },
  )
})

it('prints its help and its version', async () => {
  expect((await create(['--help'])).stdout).toContain('pnpm create @osmosis@latest')
  expect((await create(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})

it('says when the packages cannot be installed, and keeps what it made', async () => {
  const folder = await temporaryFolder({ 'bin/npm': '#!/bin/sh\nexit 1\n' })
  chmodSync(path.join(folder, 'bin/npm'), 0o755)
  vi.stubEnv('PATH', `${path.join(folder, 'bin')}${path.delimiter}${process.env['PATH'] ?? ''}`)
  onTestFinished(() => void vi.unstubAllEnvs())
  const shop = path.join(folder, 'shop')
  const { code, stderr } = await create([shop, '--yes', '--no-git'])
  expect(code).toBe(1)
  expect(stderr).toContain('error: npm install failed.')
  expect(readdirSync(shop)).toContain('package.json')
})

describe('--example', () => {
  it('makes a workspace with a rollout, rows, a config and the script that makes its model', async () => {
    const folder = path.join(await temporaryFolder(), 'my-doors')
    const { code, stderr } = await create([folder, '--example', 'doors', ...quietly])
    expect(code).toBe(0)
    expect(stderr).toContain('Created')
    expect(stderr).toContain('  uv run make_tiny_model.py tiny-model\n  npx osmosis train local')
    expect(filesIn(folder)).toEqual([
      '.dockerignore',
      '.gitignore',
      'README.md',
      'configs/training/doors.toml',
      'data/doors.jsonl',
      'make_tiny_model.py',
      'package.json',
      'rollouts/doors/main.ts',
      'tsconfig.json',
    ])
    expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toMatch(/^# my-doors\n/)
    expect(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))).toMatchObject({
      name: 'my-doors',
      dependencies: { '@osmosis/core': expect.any(String) },
    })
  })

  it('has the agent that this repository trains', () => {
    const root = path.resolve(import.meta.dirname, '../../..')
    const ours = readFileSync(path.join(root, 'examples/train/main.ts'), 'utf8')
    expect(exampleFiles('doors', 'doors').get('rollouts/doors/main.ts')).toBe(ours)
  })

  it.each([
    [['--example', 'windows'], '--example must be doors; got "windows".'],
    [['--example', 'doors', '--framework', 'strands'], 'pass --example without --framework.'],
    [['--example', 'doors', '--name', 'mine'], 'pass --example without --name.'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await create([await temporaryFolder(), ...args, ...quietly])
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})
