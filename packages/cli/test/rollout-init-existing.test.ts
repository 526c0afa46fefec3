import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { frameworkNames } from '@osmosis/create'
import { expect, it } from 'vitest'

import { here, run, workIn } from './in-process.ts'
import { problems } from './migrated-workspace.ts'
import { temporaryFolder } from './osmosis.ts'

const packages = path.resolve(import.meta.dirname, '../..')

/** A project with the packages of this repository. */
function project(...installed: readonly string[]): void {
  const root = temporaryFolder()
  for (const name of installed) {
    const link = path.join(root, 'node_modules/@osmosis', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(path.join(packages, name), link)
  }
  writeFileSync(path.join(root, 'package.json'), '{ "type": "module" }')
  workIn(root)
}

const init = (...args: readonly string[]) =>
  run(['rollout', 'init', 'one', '--existing', '--no-install', ...args])

/** Puts code to the marked place of a file. */
function fillIn(name: string, code: string): void {
  const file = here(name)
  writeFileSync(file, readFileSync(file, 'utf8').replace(/throw new Error\([^]*?\n {4}\)/, code))
}

const row = '{"user_prompt":"How many?","ground_truth":"3"}\n'
const [main, grader] = ['rollouts/one/main.ts', 'rollouts/one/grader.ts'] as const
const asks = `const { requireRolloutContext } = await import('@osmosis/core')
    const policy = requireRolloutContext('One').registerPolicySample('main')
    await policy.complete({ messages: ctx.prompt })`

it.each<[string, () => void, () => object[]]>([
  [
    'rows are missing',
    () => {},
    () => [
      {
        check: 'dataset',
        message: expect.stringContaining('no rows') as string,
        file: 'data/one.jsonl',
        page: 'node_modules/@osmosis/cli/docs/guides/datasets.md#columns',
      },
    ],
  ],
  [
    'the agent is missing',
    () => writeFileSync(here('data/one.jsonl'), row),
    () => [
      {
        check: 'rollout',
        message: expect.stringContaining('no agent runs here yet') as string,
        file: main,
        line: lineOf(main, 'throw new Error'),
      },
    ],
  ],
  [
    'the agent has its old model',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, 'await Promise.resolve()')
    },
    () => [
      {
        check: 'model calls',
        message: 'No model call reached the policy.',
        page: 'node_modules/@osmosis/openai-agents/docs/frameworks/openai-agents.md',
      },
    ],
  ],
  [
    'the grader is missing',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, asks)
    },
    () => [
      {
        check: 'rollout',
        message: expect.stringContaining('no grader is written yet') as string,
        file: grader,
        line: lineOf(grader, 'throw new Error'),
      },
    ],
  ],
  [
    'nothing is missing',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, asks)
      fillIn(grader, 'ctx.setReward(answer === label ? 1 : 0)')
    },
    () => [],
  ],
])('validate says what to do next for an agent that exists: %s', async (_what, done, expected) => {
  project('core', 'controller')
  const { code, stderr } = await init('--framework', 'openai-agents')
  expect(code).toBe(0)
  expect(stderr).toContain('npm install\n  npx osmosis validate one\n')
  done()
  const found = await problems()
  expect(found).toHaveLength(expected().length)
  expect(found).toMatchObject(expected())
})

it('an agent that exists gets scripts that run, and its folder is in tsconfig.json', async () => {
  project('core', 'controller')
  await init('--framework', 'openai-agents')
  const { scripts } = JSON.parse(readFileSync(here('package.json'), 'utf8')) as { scripts: object }
  expect(scripts).toEqual({
    evaluate: 'osmosis eval run configs/eval/one.toml --policy policies/one.ts',
    typecheck: 'tsc --noEmit',
  })
  // Without it the compiler takes the whole folder, be the agent in src/ or elsewhere.
  expect(JSON.parse(readFileSync(here('tsconfig.json'), 'utf8'))).not.toHaveProperty('include')
})

it('the command of AGENTS.md evaluates an agent that exists, with the scripted policy', async () => {
  project('core', 'controller')
  await init('--framework', 'openai-agents')
  writeFileSync(here('data/one.jsonl'), row)
  fillIn(main, asks)
  fillIn(grader, 'ctx.setReward(answer === label ? 1 : 0)')
  const [command = ''] =
    /eval run \S+ --policy [^`]+/.exec(readFileSync(here('AGENTS.md'), 'utf8')) ?? []
  expect(await run(command.replaceAll('<name>', 'one').split(' '))).toMatchObject({ code: 0 })
  // The command of the config is the same.
  const [first] = readFileSync(here('configs/eval/one.toml'), 'utf8').split('\n')
  expect(first).toBe(`# An evaluation: npx osmosis ${command.replaceAll('<name>', 'one')}`)
  // The scripted policy answers every attempt alike, and AGENTS.md says what that leads to.
  const { stdout } = await run(['eval', 'show', 'latest', '--details'])
  expect(stdout).toContain('Look at first\n· 1 row has no training signal.')
  expect(readFileSync(here('AGENTS.md'), 'utf8')).toContain('rows have no training signal')
})

it('an agent loop gets a module with a marked place, which computes its reward itself', async () => {
  project('agent-loop')
  await init('--framework', 'agent-loop')
  writeFileSync(here('data/one.jsonl'), row)
  expect(await problems()).toMatchObject([
    {
      check: 'rollout',
      message: expect.stringContaining('no loop runs here yet') as string,
      file: main,
      line: lineOf(main, 'throw new Error'),
    },
  ])
  expect(existsSync(here('rollouts/one/grader.ts'))).toBe(false)
})

it.each(frameworkNames)('an agent of %s gets no example, and rows stay', async (framework) => {
  project()
  mkdirSync(here('data'))
  writeFileSync(here('data/one.jsonl'), row)
  expect(await init('--framework', framework)).toMatchObject({ code: 0 })
  expect(existsSync(here('rollouts/one/prices.ts'))).toBe(false)
  expect(readFileSync(here('data/one.jsonl'), 'utf8')).toBe(row)
  const texts = ['AGENTS.md', 'osmosis.toml', 'rollouts/one/main.ts'].map((file) =>
    readFileSync(here(file), 'utf8'),
  )
  expect(texts.join('\n')).not.toMatch(/\{\{|__|^default_policy/m)
  expect(texts[2]).toContain('    // 1. ')
})

it.each([
  [['tickets.csv', 'notes.md'], 'tickets.csv'],
  [['tickets.csv', 'one.parquet'], 'one.parquet'],
  [['tickets.csv', 'orders.jsonl'], undefined],
  [[], undefined],
])('configs name the rows that are there: data/ has %j', async (files, dataset) => {
  project()
  mkdirSync(here('data'))
  for (const file of files) writeFileSync(here(`data/${file}`), 'user_prompt,ground_truth\n')
  const { code, stderr } = await init('--framework', 'strands')
  expect(code).toBe(0)
  expect(stderr).toContain('  rollouts/one/grader.ts\n')
  expect(stderr.includes(`rows that are there: data/${dataset}`)).toBe(dataset !== undefined)
  expect(existsSync(here('data/one.jsonl'))).toBe(dataset === undefined)
  for (const kind of ['eval', 'training']) {
    const config = readFileSync(here(`configs/${kind}/one.toml`), 'utf8')
    expect(config).toContain(`dataset = "${dataset ?? 'one'}"`)
  }
})

it('configs have a place for the columns of rows that lack the usual ones', async () => {
  project('core', 'controller')
  mkdirSync(here('data'))
  const rows = '{"question":"How many?","source":"a","expect":"3"}\n'
  writeFileSync(here('data/asked.jsonl'), rows)
  const { stderr } = await init('--framework', 'strands')
  expect(stderr).toContain('in [columns] of both configs: question, source, expect\n')
  for (const kind of ['eval', 'training']) {
    const file = here(`configs/${kind}/one.toml`)
    const filled = readFileSync(file, 'utf8')
      .replace('# [columns]', '[columns]')
      .replace('# prompt = "…"', 'prompt = "question"')
      .replace('# label = "…"', 'label = "expect"')
      .replace('# metadata = ["…"]', 'metadata = ["source"]')
    expect(filled).toContain('The rows have the columns "question", "source", "expect".')
    expect(filled.indexOf('[columns]')).toBeLessThan(filled.indexOf('agent_workflow_timeout_s'))
    writeFileSync(file, filled)
  }
  fillIn(main, asks)
  fillIn(grader, 'ctx.setReward(answer === label && ctx.metadata?.["source"] === "a" ? 1 : 0)')
  expect(await problems()).toEqual([])
  expect(readFileSync(here('data/asked.jsonl'), 'utf8')).toBe(rows)
})

it.each([
  ['the usual ones', '{"user_prompt":"a","label":"b","source":"c"}\n'],
  ['metadata', '{"question":"a","metadata":{"label":"b"}}\n'],
  ['what is no JSON', 'question\n'],
])('configs have no such place for rows with %s', async (_what, rows) => {
  project()
  mkdirSync(here('data'))
  writeFileSync(here('data/asked.jsonl'), rows)
  expect((await init('--framework', 'strands')).code).toBe(0)
  expect(readFileSync(here('configs/eval/one.toml'), 'utf8')).not.toContain('columns')
})

it.each([
  [{ dependencies: { '@google/adk': '2', zod: '4' } }, 'Google ADK'],
  [{ devDependencies: { langchain: '1', '@langchain/core': '1' } }, 'LangChain, LangGraph.js'],
])('package.json names the framework: %j', async (manifest, title) => {
  project()
  writeFileSync(here('package.json'), JSON.stringify(manifest))
  const { code, stderr } = await init()
  expect([code, stderr]).toEqual([0, expect.stringContaining(`rollout one (${title})`)])
})

it.each([{}, { dependencies: { ai: '7', '@mastra/core': '1' } }])(
  'package.json does not say which framework it is: %j',
  async (manifest) => {
    project()
    writeFileSync(here('package.json'), JSON.stringify(manifest))
    const { code, stderr } = await init()
    expect([code, stderr]).toEqual([2, expect.stringContaining('pass --framework openai-agents |')])
  },
)

it('the file of an agent may start something only when it is started itself', async () => {
  project()
  await init('--framework', 'pi')
  const guard = 'if (process.argv[1] === import.meta.filename)'
  for (const file of ['AGENTS.md', main]) expect(readFileSync(here(file), 'utf8')).toContain(guard)
})

it('rows that a config of another rollout names are not taken, but others beside them', async () => {
  project()
  await run(['rollout', 'init', 'other', '--framework', 'strands', '--no-install'])
  expect(existsSync(here('data/other.jsonl'))).toBe(true)
  expect((await init('--framework', 'strands')).stderr).not.toContain('rows that are there')
  expect(existsSync(here('data/one.jsonl'))).toBe(true)

  // A name that stands in the comments of every config.
  writeFileSync(here('data/file.jsonl'), row)
  const two = ['rollout', 'init', 'two', '--existing', '--framework', 'strands', '--no-install']
  expect((await run(two)).stderr).toContain('rows that are there: data/file.jsonl\n')
})

function lineOf(name: string, text: string): number {
  const source = readFileSync(here(name), 'utf8')
  return source.slice(0, source.indexOf(text)).split('\n').length
}
