import { existsSync } from 'node:fs'
import path from 'node:path'

import { parseJson } from '@osmosis/core/http'
import { AppendFile, type ItemOutcome, type ItemRunner, type RunStore } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { readLines } from '@osmosis/protocol/files'
import { toTrainingSequences, type SampleSequences } from '@osmosis/protocol/trajectory'

import type { TrainableSample } from '../batch/training-batch.ts'
import type { RolloutSource, SampledCalls } from '../rollouts/rollout-source.ts'

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

interface RolloutLine {
  readonly rollout_id: string
  readonly samples: readonly StoredSequences[]
}

/** Stores the sequences of the rollouts of a run, beside the run's own files. */
export class SequenceFile {
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
    const line: RolloutLine = { rollout_id: rolloutId, samples }
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
  for await (const lines of readLines(file)) {
    for (const { text } of lines) {
      const line = parseJson(text) as RolloutLine | undefined
      if (line !== undefined) found.set(line.rollout_id, line.samples)
    }
  }
  return found
}

function fileOf(runFolder: string): string {
  return path.join(runFolder, 'sequences.jsonl')
}
