import { parseJson } from '@osmosis/core/http'
import { createReadStream, existsSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { AppendFile, type ItemOutcome, type ItemRunner } from '@osmosis/eval'
import { toTrainingSequences, type SampleSequences } from '@osmosis/protocol/trajectory'

import type { RolloutSource, SampledCalls } from './rollout-source.ts'

/** The sequences of one sample, as a line of the file has them. */
export interface StoredSequences extends SampleSequences {
  readonly sampleId: string
  /** One for each call, answered or not, where the grader gave them. */
  readonly stepRewards?: readonly (number | null)[]
}

interface StoredLine {
  readonly rollout_id: string
  readonly samples: readonly StoredSequences[]
}

/** Stores the sequences of the rollouts of a run, beside the run's own files. */
export class SequenceFile {
  /** Why nothing can be stored any more; undefined while it can. */
  failure: Error | undefined
  readonly #file: AppendFile

  /** @param runFolder - which exists */
  constructor(runFolder: string) {
    this.#file = new AppendFile(sequencesOf(runFolder), (error) => (this.failure = error))
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
export async function readSequences(
  runFolder: string,
): Promise<ReadonlyMap<string, readonly StoredSequences[]>> {
  const found = new Map<string, readonly StoredSequences[]>()
  const file = sequencesOf(runFolder)
  if (!existsSync(file)) return found
  for await (const text of createInterface({ input: createReadStream(file, 'utf8') })) {
    const line = parseJson(text) as StoredLine | undefined
    if (line !== undefined) found.set(line.rollout_id, line.samples)
  }
  return found
}

function sequencesOf(runFolder: string): string {
  return path.join(runFolder, 'sequences.jsonl')
}
