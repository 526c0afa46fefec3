import { appendFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'

import type { TrainingRecord } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import { madeStep, temporaryFolder } from '../../../test/kit/index.ts'
import { columnsOf } from '../src/command/terminal-text.ts'
import { run as osmosis, workIn } from './in-process.ts'
import { makeRun, type Steps } from './made-runs.ts'
import { osmosis as startedOsmosis, workspace } from './osmosis.ts'

const columns = 80

/** What a command prints in a terminal of 80 columns. Words that are longer, such as paths, stay whole so that they can be copied. */
async function printed(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await osmosis(args, { COLUMNS: String(columns), FORCE_COLOR: '1' })
  const text = stripVTControlCharacters(`${stdout}\n${stderr}`)
  expect(tooWide(text)).toEqual([])
  return text
}

function tooWide(text: string): string[] {
  return text.split('\n').filter((line) => columnsOf(line) > columns && / /.test(line.trim()))
}

/** The text without the breaks of its lines. */
function unbroken(text: string): string {
  return text.replaceAll(/\s+/g, ' ')
}

/** A training whose names and figures take as much room as they can; in a folder in which the commands then run. */
async function training(name: string): Promise<void> {
  const folder = await temporaryFolder()
  workIn(folder)
  const at = path.join(folder, '.osmosis', 'training', name)
  mkdirSync(path.join(at, 'runs'), { recursive: true })
  const append = (record: TrainingRecord): void =>
    appendFileSync(path.join(at, 'training.jsonl'), `${JSON.stringify(record)}\n`)
  append({
    kind: 'start',
    step: 0,
    steps: 1200,
    model: `Qwen/Qwen3-235B-A22B-Thinking-${'2507-'.repeat(6)}`,
    rollout: 'airline-support '.repeat(8),
    dataset: 'airline',
    rows: 16,
    rowsPerStep: 1,
    attempts: 16,
    startedAt: '2026-11-20T09:00:00.000Z',
  })
  for (let step = 996; step < 1004; step++) {
    const { rollouts, batch, update } = madeStep(step)
    const made = madeStep(step, {
      rollouts: {
        ...rollouts,
        reward: -12.345,
        passRate: 1,
        cutOff: 1,
        answerTokens: 123_456,
        toolCalls: 120.5,
        seconds: 12_345,
        metrics: { ['words of the answer '.repeat(6)]: step },
      },
      batch: { ...batch, groups: 128, groupsWithSignal: 128 },
      update: { ...update, entropy: 10.25 },
      alarms: ['Answers were cut off. '.repeat(9), 'Another.'],
    })
    const rows = [{ source_row: 0, key: 'a', question: 'which flight? '.repeat(8).trim() }]
    await makeRun({
      outputRoot: path.join(at, 'runs'),
      name: made.run,
      rows: rows.map((row) => ({ ...row, facets: { city: 'Reykjavík '.repeat(12).trim() } })),
      items: [{ row: 0, attempt: 0, event: { reward: 0 } }],
    })
    append({ ...made, rows: [0] })
  }
}

const longName = 'airline-'.repeat(7)

it('eval show of a training: narrow terminals get fewer columns, the first of all', async () => {
  await training(longName)
  const text = await printed('eval', 'show', longName)
  expect(text).toMatch(/^Step +Reward +Passed +Signal +Drift +Entropy +Cut off +Time$/m)
  expect(text).toMatch(/^1003 +-12\.345 +100\.0 % +128\/128 .* ! !$/m)
  const { stdout } = await osmosis(['eval', 'show', longName], { COLUMNS: '200' })
  expect(stdout).toMatch(/^Step +Reward +Passed .* Cut off +Tokens +Tools +Time$/m)
  const row = await printed('eval', 'show', longName, '0')
  expect(unbroken(row)).toContain('Question which flight? which flight?')
})

it('eval runs, with a training but no run, and eval show without one', async () => {
  await training(longName)
  const text = unbroken(await printed('eval', 'runs'))
  expect(text).toContain('There are no runs in')
  expect(text).toContain(`${longName} interrupted, 8/1200 steps`)
  const missing = unbroken(await printed('eval', 'show', 'latest'))
  expect(missing).toContain(`--output names another folder. Trainings: ${longName}.`)
})

it('eval audit and eval compare of runs with long names', async () => {
  const output = await temporaryFolder()
  const made = (name: string): Promise<string> =>
    makeRun({
      outputRoot: output,
      name: `${longName}${name}`,
      rows: 1,
      items: [{ row: 0, attempt: 0 }],
      inputs: { name: 'a model with a long name, '.repeat(3) },
    })
  await made('before')
  await made('after')
  const at = ['-o', output, `${longName}after`]
  expect(unbroken(await printed('eval', 'audit', ...at))).toContain(' no findings in 1 passed')
  const text = await printed(
    'eval',
    'compare',
    ...at.slice(0, 2),
    `${longName}before`,
    `${longName}after`,
  )
  expect(unbroken(text)).toContain('After airline-')
})

it('eval show of a rollout whose history was rewritten', async () => {
  const output = await temporaryFolder()
  const extra = {
    latency_ms: 123_456,
    finish_reason: 'length',
    temperature: 0.7,
    top_p: 0.95,
    history_rewritten: true,
    history_rewritten_at: 11,
  }
  const metrics = { prompt_tokens: 123_456, completion_tokens: 12_345, extra }
  const said: Steps = [{ step_id: 2, source: 'agent', message: 'On time.', metrics }]
  const items = [{ row: 0, attempt: 0, event: { rewritten: 1 }, samples: { main: said } }]
  await makeRun({ outputRoot: output, name: 'rewritten', rows: 1, items })
  for (const args of [['0.1'], ['0.1', '--full'], ['--details'], []]) {
    const text = await printed('eval', 'show', '-o', output, 'latest', ...args)
    if (args[0] !== '0.1') continue
    expect(text).toMatch(/^Agent {2}step 2, 12,345 tokens after 123,456, 123\.5 s/m)
    expect(unbroken(text)).toContain(' cut off (length) history rewritten from message 12 of the')
  }
})

it.each([
  ['a workflow', 'rollouts/echo/main.ts', 'data/words.jsonl', 'policies/echo.ts'],
  [
    'a loop with a failed row',
    'rollouts/agent-loops/adder.ts:agentLoop',
    'data/sums.jsonl',
    'policies/adding.ts',
  ],
])('test of %s', async (_, module, dataset, policy) => {
  workIn(workspace)
  const rows = ['-m', module, '-d', dataset, '--policy', policy, '--limit', '2']
  const text = unbroken(await printed('test', ...rows))
  expect(text).toContain(` with ${policy} on 2 rows of ${dataset}`)
  expect(text).toMatch(/\[2\/2\] Row 1: (?:OK|FAILED \(.* - The policy endpoint answered 500)/)
})

it('rollout init, and what it refuses', async () => {
  const name = 'price-check-'.repeat(4).slice(0, -1)
  const compilerOptions = { target: 'es2022' }
  const project = await temporaryFolder({
    'package.json': JSON.stringify({ name: 'mine', private: true }),
    'tsconfig.json': JSON.stringify({ compilerOptions }),
    'osmosis.toml': '',
  })
  workIn(project)
  const init = (...args: readonly string[]) => printed('rollout', 'init', '--no-install', ...args)
  const text = await init(name, '--yes')
  expect(unbroken(text)).toContain('Set in its compilerOptions: "allowImportingTsExtensions": true')
  // A command that is broken into lines can still be pasted.
  expect(text.replaceAll(/ \\\n +/g, ' ')).toContain(
    `  npx osmosis eval run configs/eval/${name}.toml --policy policies/${name}.ts\n`,
  )
  expect(await init(name, '--yes')).toContain(`- data/${name}.jsonl\n`)
  expect(unbroken(await init('shop'))).toContain('pass --framework openai-agents | strands |')
  expect(unbroken(await init('Shop'))).toContain('lower-case letters, digits and hyphens')
  workIn(await temporaryFolder())
  expect(unbroken(await init('shop'))).toContain('Start a workspace: npm create @osmosis@latest')
})

it('wrong use', async () => {
  const text = await printed('eval', 'run', '--n', 'a-number-that-is-written-in-words')
  expect(unbroken(text)).toContain("argument 'a-number-that-is-written-in-words' is invalid")
})

it('another Node.js than the command needs', async () => {
  const version = `Object.defineProperty(process.versions, 'node', { value: '22.18.10' })`
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(version)}`
  const { code, stderr } = await startedOsmosis(['eval', 'runs'], { NODE_OPTIONS })
  expect(code).toBe(2)
  expect(stderr).toContain('needs Node.js')
  expect(tooWide(stderr)).toEqual([])
})
