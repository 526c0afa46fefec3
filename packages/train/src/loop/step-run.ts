import path from 'node:path'
import { randomBytes } from 'node:crypto'
import { existsSync, createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'

import { OsmosisError } from '@osmosis/core'
import {
  createRun,
  resumeRun,
  runEvaluation,
  toRunRow,
  type DatasetRow,
  type EvaluationProgress,
  type RunStore,
  AppendFile,
  type ItemOutcome,
  type ItemRunner,
} from '@osmosis/eval'
import {
  measureRollouts,
  type ItemEvent,
  type RunInputs,
  type RunManifest,
  type StepFigures,
} from '@osmosis/eval/analysis'
import { parseJson } from '@osmosis/core/http'
import { toTrainingSequences, type SampleSequences } from '@osmosis/protocol/trajectory'

import type { TrainableSample } from '../batch/training-batch.ts'
import type { RolloutSource, SampledCalls } from '../rollouts/rollout-source.ts'

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
 * that ended before are not run again.
 *
 * @throws OsmosisError with code `policy_unreachable` when the run cannot be finished, `storage_error` when it cannot be stored; the
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
      ...(redact && { redact }),
      ...(options.onProgress && { onProgress: options.onProgress }),
    })
    signal.throwIfAborted()
    if (result.status === 'incomplete') {
      const failure = sequences?.failure ?? store.failure
      if (failure !== undefined) throw failure
      throw new OsmosisError(
        'policy_unreachable',
        `The rollouts of ${name} could not all be run. ${result.incompleteReason ?? ''} The training continues with them when it is started again.`,
      )
    }
    // Without the time in which the training was stopped.
    const seconds = result.durationMs / 1000
    return measureRollouts(store.manifest, store.events.values(), seconds)
  } finally {
    await sequences?.close()
    await store.close()
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

/** The graded samples of a run that has ended, with their sequences: failed and removed ones are left out. */
export async function trainableSamples(
  runFolder: string,
  events: Iterable<ItemEvent>,
): Promise<TrainableSample[]> {
  const stored = await readSequences(runFolder)
  const samples: TrainableSample[] = []
  for (const event of events) {
    if (event.status !== 'success') continue
    const sequences = stored.get(event.rollout_id) ?? []
    for (const [sampleId, reward] of Object.entries(event.samples)) {
      if (reward === null) continue
      const said = sequencesOf(sampleId, sequences, Object.keys(event.samples).length)
      samples.push({
        rolloutId: event.rollout_id,
        sampleId,
        row: event.source_row_index,
        reward,
        stepRewards: said?.stepRewards,
        sequences: said?.sequences ?? [],
        withoutIds: said?.withoutIds ?? 0,
        untrainable: said?.untrainable ?? 0,
      })
    }
  }
  return samples
}

/** A lone conversation is that of the lone sample, whatever either is called. */
function sequencesOf(
  sampleId: string,
  stored: readonly StoredSequences[],
  sampleCount: number,
): StoredSequences | undefined {
  const named = stored.find((one) => one.sampleId === sampleId)
  return named ?? (sampleCount === 1 && stored.length === 1 ? stored[0] : undefined)
}

/** The sequences of one sample, as a line of the file has them. */
interface StoredSequences extends SampleSequences {
  readonly sampleId: string
  /** One for each call, answered or not, where the grader gave them. */
  readonly stepRewards?: readonly (number | null)[]
}

interface StoredLine {
  readonly rollout_id: string
  readonly samples: readonly StoredSequences[]
}

/** Stores the sequences of the rollouts of a run, beside the run's own files. */
class SequenceFile {
  /** Why nothing can be stored any more; undefined while it can. */
  failure: Error | undefined
  readonly #file: AppendFile

  constructor({ location, lock }: RunStore) {
    this.#file = new AppendFile(fileOf(location), lock, (error) => (this.failure = error))
    // Ends a line that a crash cut off, so that the next one is not part of it.
    if (this.#file.end > 0) void this.#file.append('').durable.catch(() => {})
  }

  /** The same runner, which reports an outcome only when the sequences of its rollout are on the disk. */
  storing(source: RolloutSource): ItemRunner {
    return {
      run: (item, options) =>
        source.runner.run(item, {
          ...options,
          onEnd: async (outcome) => {
            if (outcome.status === 'success') await this.#store(item.rolloutId, source, outcome)
            await options.onEnd?.(outcome)
          },
        }),
    }
  }

  close(): Promise<void> {
    return this.#file.close()
  }

  #store(rolloutId: string, source: RolloutSource, outcome: ItemOutcome): Promise<void> {
    const { stepRewards = {} } = outcome
    const said = [...source.callsOf(rolloutId)]
    const samples = said.map(([sampleId, { calls }]): StoredSequences => {
      // A lone conversation is that of the lone sample, whatever either is called.
      const own =
        stepRewards[sampleId] ?? (said.length === 1 ? Object.values(stepRewards)[0] : undefined)
      return {
        sampleId,
        ...toTrainingSequences(calls),
        ...(own === undefined ? {} : { stepRewards: forAllCalls(own, calls) }),
      }
    })
    const line: StoredLine = { rollout_id: rolloutId, samples }
    return this.#file.append(JSON.stringify(line)).durable
  }
}

/** Graders reward answered calls only. */
function forAllCalls(
  rewards: readonly (number | null)[],
  calls: SampledCalls['calls'],
): (number | null)[] {
  const own = rewards.values()
  return calls.map(({ error }) => (error === null ? (own.next().value ?? null) : null))
}

/** The stored sequences of the rollouts of a run, by rollout id; a line that a crash cut off is left out. */
async function readSequences(
  runFolder: string,
): Promise<ReadonlyMap<string, readonly StoredSequences[]>> {
  const found = new Map<string, readonly StoredSequences[]>()
  const file = fileOf(runFolder)
  if (!existsSync(file)) return found
  for await (const text of createInterface({ input: createReadStream(file, 'utf8') })) {
    const line = parseJson(text) as StoredLine | undefined
    if (line !== undefined) found.set(line.rollout_id, line.samples)
  }
  return found
}

function fileOf(runFolder: string): string {
  return path.join(runFolder, 'sequences.jsonl')
}
