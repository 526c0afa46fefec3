import type { RolloutOnGateway, TrainedCall } from '../kit/trainers/index.ts'
import { isRewarded, type PlannedRow } from './planned-rows.ts'

/** A rollout and its outcome. */
interface Judged {
  readonly row: PlannedRow
  /** Undefined when the trainer has removed it. */
  readonly rollout: RolloutOnGateway | undefined
  /** What would be trained of it. */
  readonly calls: readonly TrainedCall[]
  /** Whether its worker was killed while it ran. */
  readonly isKilled: boolean
}

/** The permitted end of a rollout. Throws when its end is not permitted. */
export function endOf(judged: Judged): string {
  const { row, rollout, calls } = judged
  if (rollout === undefined) {
    if (row.kind === 'withdrawn') return 'not trained: withdrawn by the trainer'
    throw new Error('was deleted, although the run did not withdraw it')
  }
  if (rollout.endedAfter === undefined) throw new Error(`has no end, and is ${rollout.state}`)
  const runners = new Set(rollout.events.map(({ attempt }) => attempt.split('-').at(-1)))
  if (runners.size > 1) throw new Error(`was run by ${runners.size} workers`)
  return calls.length > 0 ? trainedEnd(judged) : untrainedEnd(judged, rollout)
}

function trainedEnd({ row, calls }: Judged): string {
  const rewards = [...new Set(calls.map(({ reward }) => reward))].join(', ')
  if (!isRewarded(row)) throw new Error(`was trained with ${rewards}, although it had no reward`)
  if (rewards !== String(row.reward)) {
    throw new Error(`was trained with ${rewards} instead of ${row.reward}`)
  }
  if (calls.length !== row.calls) {
    throw new Error(`was trained with ${calls.length} of ${row.calls} calls`)
  }
  return 'trained with its own reward'
}

function untrainedEnd({ row, isKilled }: Judged, rollout: RolloutOnGateway): string {
  const { state, errorMessage } = rollout
  const why = errorMessage ?? ''
  if (isKilled && why.includes('worker that executed it has exited'))
    return 'not trained: its worker was killed'
  if (/deadline|timed out|timeout/i.test(why)) return tooLate
  if (/No answer from the policy|policy endpoint answered (5|429)/.test(why)) return unreachable
  const planned = plannedReasons[row.kind]
  if (planned?.state === state && planned.why.test(why))
    return `not trained: ${row.kind}, as planned`
  throw new Error(`was not trained, and nothing says why: ${state} ${why}`)
}

/** Ends that show how loaded the machine is. A run with many of them proves little. */
export const tooLate = 'not trained: too late'
export const unreachable = 'not trained: its endpoint failed more often than its retries allow'

const plannedReasons: Partial<Record<string, { readonly state: string; readonly why: RegExp }>> = {
  throws: { state: 'failed', why: /as planned/ },
  'judge throws': { state: 'failed', why: /as planned/ },
  removed: { state: 'succeeded', why: /^$/ },
  'two samples': { state: 'failed', why: /has 2 samples/ },
  'calls no model': { state: 'failed', why: /no model call|never asked|No sample/i },
}
