import type { RolloutEnd } from '@osmosis/runtime'

/** What a worker has done. */
export interface WorkerSummary {
  /** Rollouts by how they ended. */
  readonly ends: Readonly<Record<RolloutEnd['kind'], number>>
  /** Rollouts that were run more than once. */
  readonly retried: number
  /** Rollouts whose end the trainer could not be told. */
  readonly untold: number
  /** Samples that got a reward. */
  readonly samples: number
  /** Those of them whose history was rewritten, so that a trainer cannot learn from them as one sequence. */
  readonly rewritten: number
  /** Answered model calls of those samples. */
  readonly calls: number
  /** Answers among them that were cut at the limit of tokens. */
  readonly cutOff: number
}

/** Counts what a worker does. */
export class WorkerFigures implements WorkerSummary {
  readonly ends = { rewarded: 0, removed: 0, failed: 0, cancelled: 0 }
  retried = 0
  untold = 0
  samples = 0
  rewritten = 0
  calls = 0
  cutOff = 0

  count(end: RolloutEnd): void {
    this.ends[end.kind] += 1
    if (end.kind !== 'rewarded') return
    for (const { calls, extraFields } of end.samples.values()) {
      this.samples += 1
      if (extraFields['history_rewritten'] === true) this.rewritten += 1
      for (const { error, finishReason } of calls) {
        if (error !== null) continue
        this.calls += 1
        if (finishReason === 'length') this.cutOff += 1
      }
    }
  }

  /** As fields of a log line. */
  get line(): Readonly<Record<string, number>> {
    const { ends, retried, untold, samples, rewritten, calls, cutOff } = this
    return {
      ...ends,
      retried,
      untold,
      history_rewritten_share: share(rewritten, samples),
      cut_off_share: share(cutOff, calls),
    }
  }
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 1000) / 1000
}
