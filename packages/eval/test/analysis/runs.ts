import type { ItemEvent, RunManifest, RunRow } from '@osmosis/eval/analysis'

import { madeEvent, madeManifest, madeRows } from '../../../../test/kit/index.ts'

/** A manifest with this number of rows, n attempts at each, and a threshold of 1. */
export function manifestOf(
  rows: number | readonly RunRow[],
  { n = 4, threshold = 1 } = {},
): RunManifest {
  const list = typeof rows === 'number' ? madeRows(rows) : rows
  return madeManifest({ n, pass_threshold: threshold, rows: list })
}

/** Events of rows of rewards; null is a rollout that failed. */
export function eventsOf(rewards: readonly (readonly (number | null)[])[]): ItemEvent[] {
  return rewards.flatMap((row, at) =>
    row.map((reward, attempt) =>
      madeEvent(at, attempt, reward === null ? { status: 'failed' } : { reward }),
    ),
  )
}
