// One process of training-step.ts: the server of the rollouts, or the process that drives them.
import { once } from 'node:events'

import {
  readDataset,
  runEvaluation,
  type DatasetRow,
  type ItemOutcome,
  type ItemRunner,
} from '@osmosis/eval'
import { createRolloutServer, discoverEntrypoint, LocalBackend, serve } from '@osmosis/server'
import {
  servedRollouts,
  train,
  type Learner,
  type OpenRollouts,
  type RolloutSource,
} from '@osmosis/train'

import * as openDoor from '../examples/train/main.ts'
import { TinyPolicy } from '../test/kit/trainers/index.ts'

/** What a process does. */
export type TrainingTask = { readonly kind: 'server' } | DriverTask

/** The task of the process that drives rollouts. */
interface DriverTask {
  /** The rollouts alone, a step of a training with them, or such a step whose rollouts end at once. */
  readonly kind: 'rollouts' | 'step' | 'loop'
  readonly server: string
  readonly dataset: string
  readonly attempts: number
  readonly inFlight: number
  /** Folder of the training. */
  readonly folder: string
}

/** What a process used. */
export interface TrainingUsage {
  readonly cpuSeconds: number
  readonly seconds: number
  /** Resident, at its highest. */
  readonly peakMiB: number
  /** Sampled tokens in the batch; 0 for the rollouts alone. */
  readonly tokens: number
}

const task = JSON.parse(process.argv[2] ?? '') as TrainingTask
if (task.kind === 'server') await serveRollouts()
else process.send?.(await measured(task))
process.disconnect()

async function serveRollouts(): Promise<void> {
  const backend = new LocalBackend({ ...discoverEntrypoint(openDoor), maxConcurrent: 2048 })
  const app = createRolloutServer({ backend, trajectories: false, logger: false })
  const server = await serve(app, { port: 0 })
  process.send?.(server.url)
  // Each message asks for what it has used so far.
  process.on('message', () => process.send?.(cpuSeconds()))
  await once(process, 'disconnect').catch(() => {})
}

async function measured(options: DriverTask): Promise<TrainingUsage> {
  const { server, dataset, attempts, inFlight, folder } = options
  const rows = await readDataset(dataset)
  const policy = new TinyPolicy({ seed: 1 })
  const rollouts = servedRollouts({ server: { url: server } })
  let before = { cpu: cpuSeconds(), at: performance.now() }
  let tokens = 0
  if (options.kind === 'rollouts') await runAlone(rows, await rollouts(policy), options)
  else {
    const learner = learnerOf(policy, (count) => (tokens = count))
    const open = options.kind === 'step' ? rollouts : await repeated(rows, await rollouts(policy))
    before = { cpu: cpuSeconds(), at: performance.now() }
    const step = { steps: 1, rowsPerStep: rows.length, attempts, maxInFlight: inFlight }
    await train({ folder, learner, rollouts: open, rows, ...step })
  }
  return {
    cpuSeconds: cpuSeconds() - before.cpu,
    seconds: (performance.now() - before.at) / 1000,
    peakMiB: process.resourceUsage().maxRSS / 1024,
    tokens,
  }
}

async function runAlone(
  rows: readonly DatasetRow[],
  source: RolloutSource,
  { attempts, inFlight }: Pick<DriverTask, 'attempts' | 'inFlight'>,
): Promise<void> {
  await runEvaluation({
    names: { run: 'alone', rollout: 'doors', dataset: 'doors' },
    rows,
    model: { name: 'tiny', runner: source.runner },
    n: attempts,
    maxInFlight: inFlight,
    passThreshold: 1,
  })
  await source.close()
}

/** Rollouts that end at once, with what one real rollout said and rewards that differ. */
async function repeated(rows: readonly DatasetRow[], source: RolloutSource): Promise<OpenRollouts> {
  let calls: ReturnType<RolloutSource['callsOf']> = new Map()
  let first: ItemOutcome | undefined
  const runner: ItemRunner = {
    run: (item, options) =>
      source.runner.run(item, {
        ...options,
        onEnd: async (outcome) => {
          first = outcome
          calls = source.callsOf(item.rolloutId)
        },
      }),
  }
  await runAlone(rows.slice(0, 1), { ...source, runner }, { attempts: 1, inFlight: 1 })
  if (first === undefined) throw new Error('The rollout has not ended.')
  const ended = first
  return async () => ({
    runner: {
      async run({ runIndex }, { onEnd }) {
        const reward = (runIndex % 3) / 2
        const sampleRewards = Object.fromEntries(
          Object.keys(ended.sampleRewards).map((id) => [id, reward]),
        )
        const outcome = { ...ended, reward, sampleRewards }
        await onEnd?.(outcome)
        return outcome
      },
    },
    callsOf: () => calls,
    close: async () => {},
  })
}

/** A learner that updates nothing, so that the loop alone is measured. */
function learnerOf(policy: TinyPolicy, onBatch: (tokens: number) => void): Learner {
  let version = 0
  return {
    name: 'tiny',
    policy,
    get version() {
      return version
    },
    async update({ sequences }) {
      version += 1
      const tokens = sequences.reduce(
        (sum, { mask }) => sum + mask.filter((one) => one === 1).length,
        0,
      )
      onBatch(tokens)
      const unknown = { loss: null, entropy: null, clipFraction: null, kl: null, gradNorm: null }
      const drift = { driftMean: null, driftMax: null }
      return { ...unknown, ...drift, tokens, sequences: sequences.length, seconds: 0 }
    },
    async save() {},
    async load() {},
    async export() {},
    async close() {},
  }
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
