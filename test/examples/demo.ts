import { readFileSync } from 'node:fs'
import path from 'node:path'

import { openRunFolder } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { expect } from 'vitest'

import { journalEvents, temporaryFolder } from '../kit/index.ts'
import { root, type Finished } from './command.ts'
import { osmosis } from './osmosis.ts'

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: { demo: string }
}

/** The commands of the demo. */
export const steps = scripts.demo.split(' && ')

/** Those that evaluate something. */
export const evaluations = steps.filter((step) => step.startsWith('osmosis eval run '))

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

/** The arguments of a command of the demo. */
export function argsOf(command: string): string[] {
  return command.split(' ').slice(1)
}

/**
 * Runs an evaluation of the demo, checks everything that it stores, and resolves with the number of attempts that passed.
 *
 * @param rows - as many of its 50
 * @param evaluate - runs the command. Default: in this process.
 */
export async function passedOf(
  evaluation: string,
  rows: number,
  evaluate: (args: readonly string[]) => Promise<Finished> = async (args) => osmosis(args, root),
): Promise<number> {
  const output = await temporaryFolder()
  const few = rows === 50 ? [] : ['--limit', String(rows)]
  const place = ['--output', output, '--name', 'demo']
  const args = [...argsOf(evaluation), ...few, ...place, '--details']
  const { code, stdout } = await evaluate(args)
  expect(code).toBe(0)

  const all = rows * 4
  expect(stdout).toMatch(new RegExp(` · ${rows} rows × 4 attempts = ${all} rollouts\n`))
  expect(stdout).not.toMatch(/rollouts? failed/)
  // The last commands open the run in a browser.
  expect(stdout).toMatch(/^In the browser +osmosis eval view \S*demo$/m)

  const lines = readFileSync(path.join(output, 'demo/index.jsonl'), 'utf8').trimEnd().split('\n')
  const records = lines.map((line) => JSON.parse(line) as IndexLine)
  expect(records.map(({ row_index, run_index }) => [row_index, run_index])).toEqual(
    Array.from({ length: all }, (_, item) => [Math.floor(item / 4), item % 4]),
  )
  expect(new Set(records.map(({ status }) => status))).toEqual(new Set(['success']))
  const passed = records.filter(({ reward }) => reward === 1).length
  expect(records.filter(({ reward }) => reward === 0)).toHaveLength(all - passed)
  const rate = `${((100 * passed) / all).toFixed(1)} %`
  expect(stdout).toMatch(new RegExp(`^Pass rate +${rate} .*; ${passed} of ${all} have `, 'm'))

  const metrics = readFileSync(path.join(output, 'demo/metrics.json'), 'utf8')
  expect(JSON.parse(metrics)).toMatchObject({
    eval_run: { status: 'finished' },
    summary: { total_samples: all, passed, failed: 0, pass_rate: passed / all, n_runs: 4 },
  })

  // What was stored is what the grader saw, and what the policy was sent, in each framework.
  const stored = ['demo', '--output', output]
  // A loop computes its own reward, so it has no grader to run again.
  if (evaluation.includes(' -m ')) return passed
  // Graders run only where their workspace is.
  const regraded = await osmosis(['eval', 'regrade', ...stored], path.join(root, 'examples'))
  expect(regraded.stdout).toContain(`Graded ${all} of ${all} rollouts`)
  expect(regraded.stdout).toContain(`No verdict has changed.\nPass rate ${rate} → ${rate}`)
  const exported = await osmosis(['eval', 'export', ...stored, '--sft', '-'], root)
  const conversations = exported.stdout.trimEnd().split('\n')
  expect(conversations).toHaveLength(passed)
  for (const line of conversations) {
    const { messages, tools } = JSON.parse(line) as Conversation
    const spoken = messages.filter(({ role }) => role !== 'system').map(({ role }) => role)
    expect(spoken).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(tools.map((tool) => tool.function.name)).toEqual(['multiply'])
  }
  const framework = await frameworkIn(path.join(output, 'demo'))
  expect(framework).toMatch(/^(?:Agents\/|strands-agents|ai-sdk|langchain|google-adk)/)
  return passed
}

/** The framework that the transcripts of the first rollout name. */
async function frameworkIn(place: string): Promise<string | undefined> {
  const [first] = journalEvents<ItemEvent>(path.join(place, 'events.jsonl'))
  const folder = await openRunFolder(place)
  const said = first === undefined ? first : await folder.trajectories(first)
  const [trajectory] = said?.state === 'found' ? Object.values(said.value) : []
  const extra = trajectory?.extra?.['osmosis'] as {
    sample_extra_fields?: { user_agent?: string }
  }
  return extra.sample_extra_fields?.user_agent
}
