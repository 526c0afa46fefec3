import { OsmosisError } from '@osmosis/core'
import { trainingRuns, type DatasetRow, type EvaluationProgress } from '@osmosis/eval'
import type {
  CheckpointRecord,
  EvaluationRecord,
  RunInputs,
  RunManifest,
  StepRecord,
} from '@osmosis/eval/analysis'

import type { Learner, UpdateSettings } from '../learner.ts'
import type { OpenRollouts } from '../rollouts/rollout-source.ts'
import type { RunSettings } from './step-run.ts'

/** What is trained, on what, and how. */
export interface TrainOptions {
  /** Folder of the training: journal, runs and checkpoints. A training that is in it continues. */
  readonly folder: string
  /** The caller closes it. */
  readonly learner: Learner
  /** Where rollouts run; see `servedRollouts`. */
  readonly rollouts: OpenRollouts
  readonly rows: readonly DatasetRow[]
  /** Evaluated before and after the training, and every `evaluateEvery` steps. Default: none. */
  readonly heldOut?: readonly DatasetRow[]
  /** Number of updates by policy gradient. */
  readonly steps: number
  /** Rows in a step. Default: all, 16 at most. */
  readonly rowsPerStep?: number
  /** Attempts at each row. Default: 8. */
  readonly attempts?: number
  /** Attempts at each held-out row. Default: 4. */
  readonly heldOutAttempts?: number
  /** Default: 0, only before and after. */
  readonly evaluateEvery?: number
  /** The least reward of a rollout that passes. Default: 1. */
  readonly passThreshold?: number
  /** Maximum number of concurrent rollouts. Default: all attempts of a step. */
  readonly maxInFlight?: number
  /**
   * How updates are made. Defaults: {@link defaultUpdate}; with the loss `gspo` the ratio is clipped below 1 − 3e-4 and above
   * 1 + 4e-4, with `cispo` above 5.
   */
  readonly update?: Partial<UpdateSettings>
  /**
   * `linear` and `cosine` let the learning rate fall from its full value in the first step after the warm-up, so that it would be 0 in
   * the step after the last one. Default: `constant`.
   */
  readonly learningRateSchedule?: 'constant' | 'linear' | 'cosine'
  /** Steps in which the learning rate rises to its full value, before its schedule. Default: 0. */
  readonly warmupSteps?: number
  /** Whether advantages are divided by the deviation of their group. Default: true, but with the loss `dr_grpo`. */
  readonly normalizeAdvantages?: boolean
  /** Leaves answers that reached their limit of tokens out of updates; their rewards count in their groups. Default: false. */
  readonly maskCutAnswers?: boolean
  /**
   * How many updates old a trained sequence may be. Above 0 the rollouts of the next step run beside an update, so that the
   * learner has to answer while it updates; a training then does not repeat with its seed. Default: 0.
   */
  readonly maxStaleness?: number
  /**
   * Steps before the policy gradient that train the attempts whose reward is at least `threshold` by cross-entropy,
   * for a policy that gets hardly any reward. They are the next ones where a training continues with it. Default: none.
   */
  readonly warmStart?: { readonly steps: number; readonly threshold: number }
  /** Draws rows whose attempts all agreed less often. Default: false. */
  readonly curriculum?: boolean
  /**
   * Ends the training early. Rewards are those of the held-out rows where these are evaluated between steps, else those of
   * the steps. Default: after all steps.
   */
  readonly stopWhen?: {
    /** When the mean reward reaches this. */
    readonly reward?: number
    /** When the best mean reward is this many steps old. */
    readonly patience?: number
    /** When none of this many steps in a row had a signal, so that no update was made; 0: never. Default: 3. */
    readonly withoutSignal?: number
  }
  /** Steps between checkpoints. Default: 1. */
  readonly checkpointEvery?: number
  /** How many of the last checkpoints are retained, beside the best; at least 1. Default: 3. */
  readonly keepCheckpoints?: number
  /** Decides the order of the rows and of the sequences, and seeds the answers. Default: 0. */
  readonly seed?: number
  /** Names for reports. */
  readonly names?: { readonly rollout: string; readonly dataset: string }
  /** For the manifests of the runs. Default: the names alone. */
  readonly inputs?: RunInputs
  readonly provenance?: RunManifest['provenance']
  /** Removes secrets from what is stored. */
  readonly redact?: <T>(data: T) => T
  /** Interrupts the training; the same call continues with it. */
  readonly signal?: AbortSignal
  /** Called when a checkpoint is damaged and an older one is used. */
  readonly onWarning?: (message: string) => void
  readonly onStep?: (step: StepRecord) => void
  readonly onEvaluation?: (evaluation: EvaluationRecord) => void
  readonly onProgress?: (run: string, progress: EvaluationProgress) => void
}

/** The result of a training. */
export interface TrainResult {
  readonly steps: readonly StepRecord[]
  /** The first is that before the training, the last that after it. Empty without held-out rows. */
  readonly evaluations: readonly EvaluationRecord[]
  /** Why it ended. */
  readonly reason: string
  /**
   * The saved state with the highest reward: of held-out rows where these were evaluated, else the mean over the steps that it
   * answered. The start counts, and is the best when no other was better. Undefined when none was measured.
   */
  readonly best: CheckpointRecord | undefined
  /** Folder of the runs; `osmosis eval view <folder of the training>` shows them. */
  readonly runs: string
}

/** How an update is made unless options say otherwise. */
export const defaultUpdate: UpdateSettings = {
  loss: 'dapo',
  longestAnswer: 2048,
  learningRate: 1e-5,
  epochs: 1,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  kl: 0,
  maxGradNorm: 1,
  weightDecay: 0,
  importanceCap: 2,
  maxDrift: 0.3,
  seed: 0,
}

/** @throws OsmosisError with code `invalid_config` for numbers that no training can have */
export function assertOptions(options: TrainOptions): void {
  const { rows, steps, rowsPerStep = 1, attempts = 8, keepCheckpoints = 3 } = options
  const problem =
    rows.length === 0
      ? 'rows: at least one row is needed'
      : Object.entries({ steps, rowsPerStep, attempts, keepCheckpoints })
          .filter(([, value]) => !Number.isSafeInteger(value) || value < 1)
          .map(([name, value]) => `${name}: must be a positive integer, got ${value}`)[0]
  if (problem !== undefined) throw new OsmosisError('invalid_config', `Cannot train: ${problem}.`)
}

/** How the update of a step is made, but for the seed. @param step - from 1, of `total` */
export function updateOf(options: TrainOptions, step: number, total: number): UpdateSettings {
  const { update = {} } = options
  const settings = { ...defaultUpdate, ...defaultBounds[update.loss ?? 'dapo'], ...update }
  return { ...settings, learningRate: settings.learningRate * rateShare(options, step, total) }
}

/** The ratio of a whole sequence differs less from 1 than those of its tokens, and `cispo` limits weights upwards alone. */
const defaultBounds: Partial<Record<UpdateSettings['loss'], Partial<UpdateSettings>>> = {
  cispo: { clipLow: 1, clipHigh: 5 },
  gspo: { clipLow: 3e-4, clipHigh: 4e-4 },
}

function rateShare(options: TrainOptions, step: number, total: number): number {
  const { learningRateSchedule = 'constant', warmupSteps = 0 } = options
  if (step <= warmupSteps) return step / warmupSteps
  if (learningRateSchedule === 'constant') return 1
  const done = (step - warmupSteps - 1) / Math.max(1, total - warmupSteps)
  return learningRateSchedule === 'linear' ? 1 - done : (1 + Math.cos(Math.PI * done)) / 2
}

/** What the runs of a training have in common. */
export function runSettings(options: TrainOptions, source: RunSettings['source']): RunSettings {
  const { names = { rollout: 'rollout', dataset: 'rows' }, passThreshold = 1 } = options
  const { rows, rowsPerStep = Math.min(16, rows.length), attempts = 8 } = options
  return {
    outputRoot: trainingRuns(options.folder),
    names,
    source,
    passThreshold,
    maxInFlight: options.maxInFlight ?? rowsPerStep * attempts,
    inputs: options.inputs ?? unknownInputs(names),
    provenance: options.provenance ?? {
      sdk_version: '0.0.0',
      node_version: process.version,
      config: null,
      git: null,
    },
    redact: options.redact,
  }
}

function unknownInputs({ rollout, dataset }: RunSettings['names']): RunInputs {
  return {
    model: { name: '', base_url: null, params: {} },
    dataset: { name: dataset, sha256: '' },
    code: { rollout, kind: 'workflow', entrypoint: '', sha256: '', scorers: [] },
    env: {},
    secrets: [],
    timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
  }
}
