import { once } from 'node:events'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { root, run, start } from './command.ts'

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: { demo: string }
}

interface IndexLine {
  row_index: number
  run_index: number
  status: string
  reward: number
}

/** A line of `eval export --sft`. */
interface Conversation {
  messages: { role: string }[]
  tools: { function: { name: string } }[]
}

const steps = scripts.demo.split(' && ')
const evaluations = steps.filter((step) => step.startsWith('osmosis eval run '))
const last = steps.at(-1) ?? ''

it.each(evaluations)(
  '%s runs 200 graded rollouts, and its table and files agree with the error rate of the policy',
  async (evaluation) => {
    const output = mkdtempSync(path.join(tmpdir(), 'osmosis-demo-'))
    onTestFinished(() => rmSync(output, { recursive: true }))
    const [command = '', ...args] = evaluation.split(' ')
    const { code, stdout } = await run(command, [...args, '--output', output, '--name', 'demo'])
    expect(code).toBe(0)

    // examples/policies/arithmetic.ts errs on one answer in five.
    expect(stdout).toMatch(/ · 50 rows × 4 attempts = 200 rollouts\n/)
    expect(stdout).toMatch(/^Pass rate +80\.0 % .*; 160 of 200 have /m)
    expect(stdout).not.toMatch(/rollouts? failed/)
    // The last commands open the viewer on what was just run.
    expect(stdout).toMatch(/^In the browser +osmosis eval view \S*demo$/m)

    const lines = readFileSync(path.join(output, 'demo/index.jsonl'), 'utf8').trimEnd().split('\n')
    const records = lines.map((line) => JSON.parse(line) as IndexLine)
    expect(records.map(({ row_index, run_index }) => [row_index, run_index])).toEqual(
      Array.from({ length: 200 }, (_, item) => [Math.floor(item / 4), item % 4]),
    )
    expect(new Set(records.map(({ status }) => status))).toEqual(new Set(['success']))
    expect(records.filter(({ reward }) => reward === 1)).toHaveLength(160)
    expect(records.filter(({ reward }) => reward === 0)).toHaveLength(40)

    const metrics = readFileSync(path.join(output, 'demo/metrics.json'), 'utf8')
    expect(JSON.parse(metrics)).toMatchObject({
      eval_run: { status: 'finished' },
      summary: { total_samples: 200, passed: 160, failed: 0, pass_rate: 0.8, n_runs: 4 },
    })

    // What was stored is what the grader saw, and what the policy was sent, in each framework.
    const place = ['demo', '--output', output]
    // A loop gives its reward itself: there is no grader to run again.
    if (evaluation.includes(' -m ')) return
    const regraded = await run('osmosis', ['eval', 'regrade', ...place])
    expect(regraded.stdout).toContain('Graded 200 of 200 rollouts')
    expect(regraded.stdout).toContain('No verdict has changed.\nPass rate 80.0 % → 80.0 %')
    const exported = await run('osmosis', ['eval', 'export', ...place, '--sft', '-'])
    const kept = exported.stdout.trimEnd().split('\n')
    expect(kept).toHaveLength(160)
    for (const line of kept) {
      const { messages, tools } = JSON.parse(line) as Conversation
      const spoken = messages.filter(({ role }) => role !== 'system').map(({ role }) => role)
      expect(spoken).toEqual(['user', 'assistant', 'tool', 'assistant'])
      expect(tools.map((tool) => tool.function.name)).toEqual(['multiply'])
    }
  },
)

it('the demo ends with the command that opens the viewer on what it has run', async () => {
  const command = last.slice(last.indexOf('npx osmosis '))
  const [, , ...args] = command.split(' ')
  const folder = args.at(-1) ?? ''
  expect(args).toEqual(['eval', 'view', '--output', 'examples/.osmosis/evals'])
  for (const evaluation of evaluations) {
    const [, ...ran] = evaluation.split(' ')
    const { code, stdout, stderr } = await run('osmosis', [...ran, '--dry-run'])
    expect(code).toBe(0)
    expect(stdout + stderr).toContain(`${folder}/`)
  }
  const viewer = start('osmosis', [...args, '--no-open'])
  onTestFinished(() => void viewer.kill())
  const [printed] = (await once(viewer.stdout ?? viewer, 'data')) as [Buffer]
  const { origin } = new URL(String(printed))
  expect(await (await fetch(origin)).text()).toContain('<title>')
})

it('the demo is made of evaluations, and says last how to read them', () => {
  expect(steps).toEqual([...evaluations, last])
  expect(evaluations).toHaveLength(4)
  expect(last).toMatch(/^echo /)
})

it('the demo runs the eval config of every framework that has an adapter', () => {
  const configs = globSync('examples/configs/eval/*-{openai-agents,strands,ai-sdk}.toml', {
    cwd: root,
  })
  expect(configs).toHaveLength(3)
  expect(evaluations.map((evaluation) => evaluation.split(' ').at(-1) ?? '')).toEqual(
    expect.arrayContaining(configs),
  )
})
