import {
  isEnded,
  type GradingOutcome,
  type RolloutRequest,
  type WorkflowOutcome,
} from '@osmosis/protocol'
import type { PendingDelivery } from '@osmosis/server/protocols'

import type { RolloutRecord } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import type { QueuedDelivery } from './queue-admission.ts'

const states = ['running', 'grading', 'allowed', 'success', 'failure', 'cancelled'] as const

/** When a rollout entered each of its states; `allowed` is when its grading was allowed. Milliseconds. */
export type StateTimes = Readonly<Partial<Record<(typeof states)[number], number>>>

/** A pending delivery, as read from a record. */
export interface QueuedPendingDelivery extends PendingDelivery {
  readonly record: RolloutRecord
  /** Undefined unless it was requested. */
  readonly request: RolloutRequest | undefined
  readonly delivery: QueuedDelivery
  /** The body that acknowledged the completion, if it was delivered before. */
  readonly report: string | undefined
  readonly times: StateTimes
}

const small = ['delivery', 'workflow', 'report', ...states.map((state) => `at:${state}`)]
const large = ['samples', 'partial', 'grading']

/**
 * Reads the pending delivery of a rollout in one step, with samples if it has ended. Undefined when nothing
 * is pending.
 *
 * @param mayHaveEnded - a hint to read the large fields immediately
 * @param withRequest - whether to read the request of an ended rollout as well
 */
export async function readPendingDelivery(
  records: RolloutRecords,
  id: string,
  mayHaveEnded: boolean,
  withRequest: boolean,
): Promise<QueuedPendingDelivery | undefined> {
  const long = mayHaveEnded ? [...large, ...(withRequest ? ['request'] : [])] : []
  const read = await records.readWith(id, [...small, ...long])
  if (read === undefined) return undefined
  const { record, more } = read
  const delivery = more.open('delivery') as QueuedDelivery | undefined
  if (delivery === undefined || !record.hasWorkflow) return undefined
  const isWhole = isEnded(record.status)
  if (isWhole && !mayHaveEnded) return readPendingDelivery(records, id, true, withRequest)
  const stored = more.workflow(isWhole)
  if (stored === undefined) return undefined
  const { outcome: workflow, samples } = stored
  return {
    record,
    request: more.open('request') as RolloutRequest | undefined,
    delivery,
    workflow,
    samples,
    grading: more.grading(samples) ?? ungraded(workflow, delivery),
    report: more.open('report') as string | undefined,
    times: Object.fromEntries(
      states.flatMap((state) => {
        const at = more.get(`at:${state}`)
        return at === undefined ? [] : [[state, Number(at)] as const]
      }),
    ),
  }
}

/** The failure of a workflow is also the outcome of its grading. */
function ungraded(
  { failure }: WorkflowOutcome,
  { grade }: QueuedDelivery,
): GradingOutcome | undefined {
  if (failure === null || !grade) return undefined
  return { status: 'failure', failure, samples: new Map() }
}
