// Proves that a pretrained model gets better at an agent, on two CPU cores: makes a Python environment and SmolLM2-135M-Instruct in an empty
// folder, trains the model on the orders with five seeds, compares the held-out rows before and after, and prints every result and the
// verdict. The seeds are 1 to 5: nobody chose them, and none may be left out.
//
//   node scripts/real-models/prove.ts FOLDER
//
// It needs Python with venv, and the Python package index. Flags: --python PYTHON (one that has torch, transformers, peft, gguf
// and accelerate), --seeds 1,2,3,4,5 and --steps 16.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import process, { argv, execPath, stdout } from 'node:process'
import { parseArgs, promisify } from 'node:util'

const root = path.resolve(import.meta.dirname, '../..')
const osmosis = path.join(root, 'packages/cli/src/bin.ts')
const orders = path.join(import.meta.dirname, 'orders')
/** The held-out reward that each seed has to reach. */
const wantedReward = 0.8

const { values, positionals } = parseArgs({
  args: argv.slice(2),
  allowPositionals: true,
  options: {
    python: { type: 'string' },
    seeds: { type: 'string', default: '1,2,3,4,5' },
    steps: { type: 'string', default: '16' },
  },
})
const [givenFolder] = positionals
if (givenFolder === undefined)
  throw new Error('Name a folder: node scripts/real-models/prove.ts FOLDER')
const folder = path.resolve(givenFolder)

/** Runs a program and shows what it prints. */
async function show(command: string, args: readonly string[], cwd = folder): Promise<void> {
  const child = spawn(command, args, { cwd, stdio: 'inherit' })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${String(code)}.`)
}

/** A Python with what the learner names in its first lines, and what reads the downloaded model. */
async function makePython(): Promise<string> {
  if (values.python !== undefined) return values.python
  const python = path.join(folder, 'python/bin/python')
  const learner = readFileSync(path.join(root, 'packages/train/learner/learner.py'), 'utf8')
  const [, list = '[]'] = /^# dependencies = (\[.*\])$/m.exec(learner) ?? []
  const packages = [...(JSON.parse(list) as string[]), 'gguf', 'accelerate']
  // Both commands change nothing that is complete, and finish what an earlier start left undone.
  await show('python3', ['-m', 'venv', 'python'])
  await show(python, ['-m', 'pip', 'install', '--quiet', ...packages])
  return python
}

async function makeModel(python: string): Promise<string> {
  const model = path.join(folder, 'SmolLM2-135M-Instruct')
  if (!existsSync(path.join(model, 'tokenizer.json'))) {
    await show(python, [path.join(import.meta.dirname, 'smollm2.py'), model])
  }
  return model
}

interface Estimate {
  readonly value: number | null
  /** The interval with 95 % confidence. */
  readonly ci95: readonly [low: number, high: number] | null
}

/** How two evaluations of the held-out rows differ, as `osmosis eval compare --json` prints it. */
interface Comparison {
  readonly before: Estimate
  readonly after: Estimate
  readonly difference: Estimate
}

/** A training with one seed, and what the held-out rows say of it. */
interface Proof {
  readonly seed: string
  readonly training: string
  readonly minutes: number
  /** Mean rewards. */
  readonly reward: Comparison
  /** Shares of attempts that pass: all four values are right, and nothing stands around the object. */
  readonly passed: Comparison
}

async function trainWith(seed: string, python: string, model: string): Promise<Proof> {
  const name = `orders-${seed}`
  const training = path.join(folder, name)
  const began = performance.now()
  const flags = ['--model', model, '--python', python, '--seed', seed, '--output', folder]
  const steps = ['--steps', values.steps]
  const config = 'configs/training/orders.toml'
  await show(
    execPath,
    [osmosis, 'train', 'local', config, '--name', name, ...flags, ...steps],
    orders,
  )
  const minutes = (performance.now() - began) / 60_000
  const runs = path.join(training, 'runs')
  const last = readdirSync(runs)
    .filter((run) => run.startsWith('after-step-'))
    .toSorted()
    .at(-1)
  if (last === undefined)
    throw new Error(
      `Expected an evaluation after-step-… in ${runs} and found none. Remove ${training} and start again.`,
    )
  const evaluations = [path.join(training, 'before'), path.join(training, last)]
  const reward = await compare(evaluations, 'reward')
  return { seed, training, minutes, reward, passed: await compare(evaluations, 'pass') }
}

async function compare(
  evaluations: readonly string[],
  metric: 'reward' | 'pass',
): Promise<Comparison> {
  const args = ['eval', 'compare', ...evaluations, '--metric', metric, '--json']
  const { stdout: json } = await promisify(execFile)(execPath, [osmosis, ...args])
  return JSON.parse(json) as Comparison
}

function isProved({ reward, passed }: Proof): boolean {
  const isSurelyMore = ({ difference }: Comparison): boolean => (difference.ci95?.[0] ?? 0) > 0
  return (reward.after.value ?? 0) >= wantedReward && isSurelyMore(reward) && isSurelyMore(passed)
}

function proofLine({ seed, minutes, reward, passed }: Proof): string {
  return (
    `seed ${seed}: held-out reward ${changeText(reward)}, passed ${changeText(passed)}, ` +
    `${minutes.toFixed(0)} minutes`
  )
}

function changeText({ before, after, difference }: Comparison): string {
  const [low, high] = difference.ci95 ?? []
  return `${percent(before.value)} -> ${percent(after.value)} (95 %: ${percent(low)} to ${percent(high)} more)`
}

function percent(share: number | null | undefined): string {
  return `${((share ?? NaN) * 100).toFixed(1)} %`
}

/** The median and the worst of the rewards after the trainings. */
function spreadLine(all: readonly Proof[]): string {
  const rewards = all.map(({ reward }) => reward.after.value ?? NaN).toSorted((a, b) => a - b)
  const upper = rewards[Math.floor(rewards.length / 2)] ?? NaN
  const lower = rewards[Math.floor((rewards.length - 1) / 2)] ?? NaN
  return `median ${percent((lower + upper) / 2)}, worst ${percent(rewards[0])}`
}

mkdirSync(folder, { recursive: true })
const python = await makePython()
const model = await makeModel(python)
const proofs: Proof[] = []
for (const seed of values.seeds.split(',')) proofs.push(await trainWith(seed, python, model))
const proved = proofs.every(isProved)
const wanted = `each seed reaches a reward of ${wantedReward} and passes more rows, with intervals above 0`
const verdict = `${proved ? 'PROVED' : 'NOT PROVED'} (${wanted})`
stdout.write(`\n${[...proofs.map(proofLine), spreadLine(proofs), verdict].join('\n')}\n`)
writeFileSync(path.join(folder, 'proof.json'), `${JSON.stringify({ proved, proofs }, null, 2)}\n`)
process.exitCode = proved ? 0 : 1
