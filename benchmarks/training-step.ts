// What the loop of a training costs beside its rollouts: a step of 10,000 rollouts of a tiny policy, the same rollouts alone,
// and the same step with rollouts that end at once. The rollouts run on a server in a process of its own. Then learner.py beside
// it compares the learner with plain transformers, with the Python that OSMOSIS_PYTHON names (default: python3).
//
//   npx -y pnpm@12 run bench training [rollouts] [rollouts in flight]
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { rounded } from './figures.ts'
import type { TrainingTask, TrainingUsage } from './training-under-test.ts'

const rollouts = Number(process.argv[2] ?? 10_000)
const inFlight = Number(process.argv[3] ?? 512)
const attempts = 8
const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-training-'))
const server = start({ kind: 'server' })

try {
  const [url] = (await once(server, 'message')) as [string]
  const drive = async (kind: 'rollouts' | 'step' | 'loop', count: number): Promise<Measured> => {
    const dataset = await doorsFile(Math.ceil(count / attempts))
    const before = await usedByServer()
    const training = path.join(folder, `${kind}-${count}`)
    const driver = start({ kind, server: url, dataset, attempts, inFlight, folder: training })
    const [usage] = (await once(driver, 'message')) as [TrainingUsage]
    return { ...usage, serverCpuSeconds: (await usedByServer()) - before }
  }
  // The first rollouts warm up the server.
  await drive('rollouts', 1000)
  const quarter = await drive('step', rollouts / 4)
  const alone = await drive('rollouts', rollouts)
  const loop = await drive('loop', rollouts)
  const step = await drive('step', rollouts)
  const rolloutCpu = alone.cpuSeconds + alone.serverCpuSeconds
  console.table({
    'rollouts alone: CPU of agent and grader, s': {
      measured: rounded(alone.serverCpuSeconds),
      goal: '',
    },
    'rollouts alone: CPU of controller and policy, s': {
      measured: rounded(alone.cpuSeconds),
      goal: '',
    },
    'a step whose rollouts end at once: CPU of the loop, s': {
      measured: rounded(loop.cpuSeconds),
      goal: '',
    },
    'the loop, % of the CPU of the rollouts': {
      measured: rounded((100 * loop.cpuSeconds) / rolloutCpu),
      goal: 'at most 10',
    },
    'time of a step, by the rollouts alone': {
      measured: rounded(step.seconds / alone.seconds),
      goal: '',
    },
    'memory at its peak, a quarter of the rollouts, MiB': {
      measured: rounded(quarter.peakMiB),
      goal: '',
    },
    'memory at its peak, all rollouts, MiB': { measured: rounded(step.peakMiB), goal: 'flat' },
    'memory at its peak, rollouts alone, MiB': { measured: rounded(alone.peakMiB), goal: '' },
    'sampled tokens in the batch': { measured: step.tokens, goal: '' },
  })
  console.log(
    JSON.stringify({ node: process.version, rollouts, inFlight, quarter, alone, loop, step }),
  )
} finally {
  server.kill()
  await rm(folder, { recursive: true, force: true })
}
const python = process.env['OSMOSIS_PYTHON'] ?? 'python3'
const learner = path.join(import.meta.dirname, 'learner.py')
const [exitCode] = await once(spawn(python, [learner], { stdio: 'inherit' }), 'close')
if (exitCode !== 0) {
  throw new Error(
    `${python} ${learner} ended with ${exitCode}: it needs torch, transformers and peft.`,
  )
}

type Measured = TrainingUsage & { readonly serverCpuSeconds: number }

function start(task: TrainingTask): ChildProcess {
  return fork(path.join(import.meta.dirname, 'training-under-test.ts'), [JSON.stringify(task)])
}

async function usedByServer(): Promise<number> {
  server.send('usage')
  const [seconds] = (await once(server, 'message')) as [number]
  return seconds
}

async function doorsFile(count: number): Promise<string> {
  const file = path.join(folder, `${count}.jsonl`)
  const lines = Array.from({ length: count }, (_, at) => {
    const code = 'abcd'.charAt(at % 4) + 'abcd'.charAt(Math.floor(at / 4) % 4)
    const row = { user_prompt: `What is the code of door ${at}?`, ground_truth: code }
    return JSON.stringify({ ...row, metadata: { note: code } })
  })
  await writeFile(file, `${lines.join('\n')}\n`)
  return file
}
