// An agent that learns while you watch: its policy is evaluated, trained for some iterations, and
// evaluated again. Everything but the size of the policy and the cluster is real: agent, grader, rollout
// server, callbacks, token ids and logprobs.
//
//   npx -y pnpm@12 run demo:train [--iterations <n>] [--output <folder of runs>]
//   npx -y pnpm@12 run demo:train --torch [--python <command>]: a transformer instead of the tiny policy
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs, promisify } from 'node:util'

import { readDataset, type DatasetRow } from '@osmosis/eval'

import { FakeOsmosis, learn, type FakeModel } from '../../test/kit/trainers/index.ts'
import { startOsmosis, stop } from '../distributed/processes.ts'
import { LearningCurve } from './learning-curve.ts'
import { policyFile } from './policy-file.ts'
import { trainTransformer } from './transformer.ts'
import { policy } from './untrained.ts'

const agent = 'examples/train/main.ts'
const dataset = 'examples/train/doors.jsonl'
const attempts = 8
const serving = ['serve', agent, '--port', '0', '--no-trajectories', '--log-level', 'error']

const { values: flags } = parseArgs({
  options: {
    iterations: { type: 'string', default: '15' },
    output: { type: 'string', default: 'examples/.osmosis/evals' },
    torch: { type: 'boolean', default: false },
    python: { type: 'string', default: 'python3' },
  },
})
const root = path.resolve(import.meta.dirname, '../..')
const say = (text: string): void => void process.stdout.write(`${text}\n`)

try {
  await (flags.torch ? torchDemo() : demo())
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
process.exit()

async function demo(): Promise<void> {
  const rows = await readDataset(path.join(root, dataset))
  say(
    `${rows.length} doors, ${attempts} attempts at each: the agent has to say a code of two letters, and`,
  )
  say('one tool reads the note with it. The policy starts from random weights.\n')
  await Promise.all([
    evaluate('doors-before', 'untrained.ts'),
    train(rows, Number(flags.iterations)),
  ])
  mkdirSync(path.dirname(policyFile), { recursive: true })
  writeFileSync(policyFile, JSON.stringify(policy))
  await evaluate('doors-after', 'trained.ts')

  say(`\n${await osmosis('eval', 'compare', 'doors-before', 'doors-after', '--metric', 'reward')}`)
  const command = (words: string): string => `npx osmosis ${words} --output ${flags.output}`
  const item = learntItem()
  say(`One conversation   ${command(`eval show doors-before ${item}`)}`)
  say(`The same, trained  ${command(`eval show doors-after ${item}`)}`)
  say(`In the browser     ${command('eval view')}`)
}

async function torchDemo(): Promise<void> {
  const rows = await readDataset(path.join(root, dataset))
  say(
    'A transformer of 150,000 weights first learns on the spot to answer such questions, mostly by',
  )
  say('guessing. Then it learns from rewards alone.\n')
  const output = path.resolve(root, flags.output)
  mkdirSync(output, { recursive: true })
  const server = await startOsmosis(
    [...serving, '--concurrency', String(rows.length * attempts)],
    /Listening on (\S+)/,
  )
  try {
    const url = server.found[1] ?? ''
    const steps = Number(flags.iterations)
    const training = { server: url, python: flags.python, rows, attempts, steps, output }
    const { runs, evaluations } = await trainTransformer(training)
    const after = evaluations.at(-1)?.run ?? ''
    const inRuns = ['--output', runs]
    say(`\n${await osmosis('eval', 'compare', 'before', after, '--metric', 'reward', ...inRuns)}`)
    say(`In the browser     npx osmosis eval view ${path.relative(root, path.dirname(runs))}`)
  } finally {
    await stop(server)
  }
}

async function train(rows: readonly DatasetRow[], iterations: number): Promise<void> {
  const server = await startOsmosis(serving, /Listening on (\S+)/)
  const curve = new LearningCurve()
  let answers = 0
  const model: FakeModel = (body, rolloutId) => {
    answers += 1
    curve.running(policy.version, answers)
    return policy.complete(body, rolloutId)
  }
  const url = server.found[1] ?? ''
  const cluster = await FakeOsmosis.start({ model, server: { url }, rewards: 'callbacks' })
  const began = performance.now()
  let known = 0
  for (let iteration = 0; iteration <= iterations; iteration += 1) {
    answers = 0
    const rollouts = await cluster.runBatch(rows, attempts)
    const rewards = rollouts.flatMap((rollout) => [...rollout.rewards.values()])
    const readers = rollouts.filter(({ calls }) => calls > 1)
    curve.ended(iteration, average(rewards), readers.length / rollouts.length)
    const recorded = cluster.trained()
    // The last iteration only measures the rewards; nothing is learnt from it.
    if (iteration < iterations) learn(policy, recorded.slice(known))
    known = recorded.length
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  say(
    `\n${rows.length * attempts * (iterations + 1)} rollouts and ${iterations} updates in ${seconds} s`,
  )
  await cluster.close()
  await stop(server)
}

async function evaluate(name: string, policyModule: string): Promise<void> {
  const who = ['-m', agent, '-d', dataset, '--policy', `examples/train/${policyModule}`]
  await osmosis(
    'eval',
    'run',
    ...who,
    '--n',
    String(attempts),
    '--name',
    name,
    '--fresh',
    '--quiet',
  )
}

/** An attempt with reward 0 before and reward 1 after. */
function learntItem(): string {
  const before = rewardsOf('doors-before')
  const after = [...rewardsOf('doors-after')]
  const [learnt = ['0.1']] = after.filter(([item, to]) => to === 1 && before.get(item) === 0)
  return learnt[0]
}

/** By row and attempt, as `eval show` takes them. */
function rewardsOf(run: string): ReadonlyMap<string, number> {
  const index = path.resolve(root, flags.output, run, 'index.jsonl')
  const lines = readFileSync(index, 'utf8').trimEnd().split('\n')
  const items = lines.map((line) => JSON.parse(line) as IndexLine)
  return new Map(items.map((item) => [`${item.row_index}.${item.run_index + 1}`, item.reward]))
}

interface IndexLine {
  readonly row_index: number
  readonly run_index: number
  readonly reward: number
}

/** Runs the command, and resolves with what it printed. */
async function osmosis(...args: readonly string[]): Promise<string> {
  const command = path.join(root, 'node_modules/.bin/osmosis')
  const output = args.includes('--output') ? [] : ['--output', flags.output]
  const { stdout } = await promisify(execFile)(command, [...args, ...output], {
    cwd: root,
  })
  return stdout
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
