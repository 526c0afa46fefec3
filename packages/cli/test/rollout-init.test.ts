import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { frameworkNames } from '@osmosis/create'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { run, workIn } from './in-process.ts'
import { startInTerminal } from './pseudo-terminal.ts'

const manifest = {
  name: 'mine',
  private: true,
  dependencies: { zod: '4.6.0', undici: '^8.0.0' },
  devDependencies: { '@osmosis/cli': '^0.0.0' },
}

/** The working folder of a test: a project of a user. */
async function project(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await temporaryFolder({ 'package.json': JSON.stringify(manifest), ...files })
  workIn(folder)
  return folder
}

const init = (...args: readonly string[]) => run(['rollout', 'init', ...args, '--no-install'])

it('adds a rollout, what the workspace lacks, and the packages that package.json lacks', async () => {
  const folder = await project()
  const { code, stderr } = await init('shop', '--framework', 'strands')
  expect(code).toBe(0)
  expect(stderr).toContain(
    'npm install\n  npx osmosis eval run configs/eval/shop.toml\n  npx osmosis eval show latest 11.1\n',
  )
  for (const file of [
    'rollouts/shop/main.ts',
    'data/shop.jsonl',
    'osmosis.toml',
    'tsconfig.json',
  ]) {
    expect(existsSync(path.join(folder, file))).toBe(true)
  }
  const written = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as unknown
  expect(written).toEqual({
    name: 'mine',
    private: true,
    dependencies: {
      '@osmosis/core': expect.stringMatching(/^\^\d/),
      '@osmosis/strands': expect.stringMatching(/^\^\d/),
      '@strands-agents/sdk': expect.stringMatching(/^\^\d/),
      undici: '^8.0.0',
      zod: '4.6.0',
    },
    devDependencies: {
      '@osmosis/cli': '^0.0.0',
      '@osmosis/controller': expect.stringMatching(/^\^\d/),
      '@types/node': expect.stringMatching(/^\^\d/),
      typescript: expect.stringMatching(/^\^\d/),
    },
    scripts: {
      evaluate: 'osmosis eval run configs/eval/shop.toml',
      test: 'node --test "rollouts/**/*.test.ts"',
      typecheck: 'tsc --noEmit',
    },
  })
  expect(stderr).toContain('Added to its scripts: evaluate, test, typecheck\n')
})

it('leaves scripts alone that are there, and prints what is missing where it writes no package.json', async () => {
  const folder = await project()
  await init('shop', '--framework', 'strands')
  const place = path.join(folder, 'package.json')
  const { scripts: _, ...rest } = JSON.parse(readFileSync(place, 'utf8')) as { scripts: object }
  const own = JSON.stringify({ ...rest, scripts: { test: 'vitest', typecheck: 'tsgo' } })
  writeFileSync(place, own)
  const { stderr } = await init('other', '--framework', 'strands')
  expect(readFileSync(place, 'utf8')).toBe(own)
  expect(stderr).toContain(
    'Scripts that package.json does not have:\n  "evaluate": "osmosis eval run configs/eval/other.toml --policy policies/other.ts"\n\nNext:',
  )
  writeFileSync(place, JSON.stringify({ ...manifest, scripts: { test: 'vitest' } }))
  await init('third', '--framework', 'strands')
  expect(JSON.parse(readFileSync(place, 'utf8'))).toHaveProperty('scripts.test', 'vitest')
})

it('asks for the framework in a terminal', async () => {
  const folder = await project()
  const args = ['rollout', 'init', 'shop', '--no-install']
  const session = startInTerminal(args, { cwd: folder })
  await session.until(`1 to ${frameworkNames.length} [1] `)
  session.type('ai-sdk\r')
  const { code, rest } = await session.ended
  expect(rest).toContain('Added the rollout shop (Vercel AI SDK) to ')
  expect(code).toBe(0)
})

it('leaves an osmosis.toml alone, and names the policy of the new rollout', async () => {
  const config = '[policies.mine]\nmodule = "policies/mine.ts"\n'
  const folder = await project({
    'osmosis.toml': config,
    'data/a.jsonl': '',
    'rollouts/a/b.ts': '',
  })
  workIn(path.join(folder, 'rollouts/a'))
  const { code, stderr } = await init('shop', '--yes')
  expect(code).toBe(0)
  expect(readFileSync(path.join(folder, 'osmosis.toml'), 'utf8')).toBe(config)
  expect(stderr).toContain('  cd ../..\n')
  expect(stderr).toContain('configs/eval/shop.toml --policy policies/shop.ts\n')
})

it.each<[string, Record<string, string>, (string | RegExp)[]]>([
  [
    'nothing of what is needed',
    { 'tsconfig.json': '{"compilerOptions":{"target":"es2022"}}' },
    [/"allowImportingTsExtensions": true/, /"lib": \["es2023"\]/],
  ],
  [
    'an old library, under comments',
    {
      'tsconfig.json':
        '{\n  // "lib": ["esnext"]\n  "compilerOptions": { "rewriteRelativeImportExtensions": true, /* , */ "lib": ["es2022", "dom",], },\n}',
    },
    [/"lib": \["es2023"\]/],
  ],
  [
    'what another config has',
    {
      'tsconfig.json': '{ "extends": ["./base"], "compilerOptions": { "target": "es2022" } }',
      'base.json':
        '{ "compilerOptions": { "allowImportingTsExtensions": true, "lib": ["ES2024"] } }',
    },
    [],
  ],
])('says what a tsconfig.json lacks that has %s', async (_, files, lacks) => {
  await project(files)
  const { code, stderr } = await init('shop', '--yes')
  const [, list = ''] = /Set in its compilerOptions:\n((?: {2}.*\n)*)/.exec(stderr) ?? []
  expect([code, list.split('\n').slice(0, -1)]).toEqual([
    0,
    lacks.map((line) => expect.stringMatching(line) as string),
  ])
})

it.each(['  ', '    ', '\t'])('keeps the indentation of package.json, here %j', async (indent) => {
  const folder = await project({ 'package.json': JSON.stringify(manifest, null, indent) })
  await init('shop', '--framework', 'strands')
  const written = readFileSync(path.join(folder, 'package.json'), 'utf8')
  expect(written).toBe(`${JSON.stringify(JSON.parse(written), null, indent)}\n`)
})

it('writes nothing where a file of that name is, and names it', async () => {
  const folder = await project({ 'data/shop.jsonl': '{}' })
  const { code, stderr } = await init('shop', '--yes')
  expect(code).toBe(2)
  expect(stderr).toContain('- data/shop.jsonl\n')
  expect(existsSync(path.join(folder, 'rollouts'))).toBe(false)
  expect(readFileSync(path.join(folder, 'package.json'), 'utf8')).toBe(JSON.stringify(manifest))
})

it.each([
  [['Shop', '--yes'], 'got "Shop"'],
  [
    ['shop'],
    'No terminal is available for the answer: pass --framework openai-agents | strands | ',
  ],
])('refuses %j', async (args, message) => {
  await project()
  const { code, stderr } = await init(...args)
  expect(code).toBe(2)
  expect(stderr).toContain(message)
})

it('explains how to create a workspace without a package.json', async () => {
  workIn(await temporaryFolder())
  const { code, stderr } = await init('shop', '--yes')
  expect(code).toBe(2)
  expect(stderr).toContain('npm create @osmosis@latest')
})

it.each([
  ['{"private": true,}', /package\.json is not JSON: .+\. Correct it, and run the command again\./],
  [
    '["shop"]',
    /package\.json must be a JSON object such as \{"private": true\}, got \["shop"\]\. Correct it/,
  ],
])('refuses the package.json %s, and writes nothing', async (text, message) => {
  const folder = await project({ 'package.json': text })
  const { code, stderr } = await init('shop', '--framework', 'strands')
  expect([code, stderr]).toEqual([2, expect.stringMatching(message)])
  expect(existsSync(path.join(folder, 'rollouts'))).toBe(false)
})
