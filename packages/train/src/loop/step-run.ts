import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import {
  createRun,
  resumeRun,
  runEvaluation,
  toRunRow,
  type DatasetRow,
  type EvaluationProgress,
  type RunStore,
} from '@osmosis/eval'
import {
  measureRollouts,
  type RunInputs,
  type RunManifest,
  type StepFigures,
} from '@osmosis/eval/analysis'

import type { RolloutSource } from '../rollouts/rollout-source.ts'
import { SequenceFile } from './stored-sequences.ts'

/** A number of steps as names of folders have it. */
export function padded(step: number): string {
  return String(step).padStart(4, '0')
}

/** What the runs of a training have in common. */
export interface RunSettings {
  /** Folder of the runs. */
  readonly outputRoot: string
  /** Names for reports. */
  readonly names: { readonly rollout: string; readonly dataset: string }
  readonly source: RolloutSource
  readonly passThreshold: number
  readonly maxInFlight: number
  /** Inputs for the manifests of the runs, but for the name of the model. */
  readonly inputs: RunInputs
  readonly provenance: RunManifest['provenance']
  readonly redact?: (<T>(data: T) => T) | undefined
}

/** The rollouts of one step, or of an evaluation. */
export interface StepRunOptions {
  /** Name of the run. */
  readonly name: string
  /** Of the training. */
  readonly seed: number
  /** Name of the model that answers, with its version. */
  readonly model: string
  readonly rows: readonly DatasetRow[]
  readonly attempts: number
  /** Whether sequences are stored. */
  readonly trains: boolean
  readonly signal: AbortSignal
  readonly onProgress?: ((progress: EvaluationProgress) => void) | undefined
}

/** The rollouts of a step that have all ended. */
export interface EndedStepRun {
  readonly figures: StepFigures
  /** Rows whose attempts all had the same reward, by position in the dataset. */
  readonly settledRows: readonly number[]
}

/** The rollouts of a step, which run beside whatever the caller does next. */
export interface StartedStepRun {
  /** As {@link runStep}. */
  readonly ended: Promise<EndedStepRun>
  /** Interrupts them. Resolves when none runs any more; another call of {@link beginStep} continues with them. */
  readonly stop: () => Promise<void>
}

export function beginStep(settings: RunSettings, options: StepRunOptions): StartedStepRun {
  const stopping = new AbortController()
  const signal = AbortSignal.any([options.signal, stopping.signal])
  const ended = runStep(settings, { ...options, signal })
  const settled = Promise.allSettled([ended])
  return {
    ended,
    stop: async () => {
      stopping.abort(new Error('The training ended.'))
      await settled
    },
  }
}

/**
 * Runs the rollouts of a step as a run that `osmosis eval` opens, or continues with a run that was interrupted: items
 * that ended before are not run again, unless all of them failed.
 *
 * @throws OsmosisError with code `rollouts_incomplete` when the run cannot be finished, `storage_error` when it cannot be stored; the
 * reason of `signal`
 */
export async function runStep(
  settings: RunSettings,
  options: StepRunOptions,
): Promise<EndedStepRun> {
  const { source, names, passThreshold, maxInFlight, redact } = settings
  const { name, rows, signal } = options
  source.startStep?.(`${options.seed}/${name}`)
  const store = await openStore(settings, options)
  const sequences = options.trains ? new SequenceFile(store) : undefined
  // Failures that have stopped the run would stop it again at once.
  const isUnfinished = store.events.size < rows.length * store.manifest.n
  const hasOnlyFailed = [...store.events.values()].every(({ status }) => status === 'failed')
  try {
    const result = await runEvaluation({
      names: { run: name, ...names },
      rows,
      model: {
        name: store.manifest.inputs.model.name,
        runner: sequences === undefined ? source.runner : sequences.storing(source),
      },
      // A run that was interrupted has as many attempts at all of its rows, whatever is set now.
      n: store.manifest.n,
      maxInFlight,
      gradesGroups: source.gradesGroups ?? false,
      passThreshold,
      signal,
      store,
      runAgain: () => isUnfinished && hasOnlyFailed,
      ...(redact && { redact }),
      ...(options.onProgress && { onProgress: options.onProgress }),
    })
    signal.throwIfAborted()
    if (result.status === 'incomplete') {
      const failure = sequences?.failure ?? store.failure
      if (failure !== undefined) throw failure
      throw new OsmosisError(
        'rollouts_incomplete',
        `The rollouts of ${name} could not all be run. ${result.incompleteReason ?? ''} The training continues with them when it is started again.`,
      )
    }
    // Without the time in which the training was stopped.
    const seconds = result.durationMs / 1000
    return measureRollouts(store.manifest, store.events.values(), seconds)
  } finally {
    try {
      await sequences?.close()
    } finally {
      await store.close()
    }
  }
}

async function openStore(settings: RunSettings, options: StepRunOptions): Promise<RunStore> {
  const { outputRoot, passThreshold, inputs, provenance } = settings
  const { name, rows, attempts, model } = options
  const location = path.join(outputRoot, name)
  if (existsSync(location)) return resumeRun({ location })
  const manifest: RunManifest = {
    schema_version: 1,
    local_run_id: randomBytes(16).toString('hex'),
    run_name: name,
    created_at: new Date().toISOString(),
    inputs: { ...inputs, model: { ...inputs.model, name: model } },
    n: attempts,
    pass_threshold: passThreshold,
    provenance,
    rows: rows.map(toRunRow),
  }
  return createRun({ outputRoot, manifest })
}
