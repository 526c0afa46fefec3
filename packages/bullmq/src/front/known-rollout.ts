import { isEnded, type GradingOutcome, type RolloutRequest } from '@osmosis/runtime'

import type { RolloutRecord } from '../records/rollout-record.ts'
import type { KeptWorkflow } from '../records/record-fields.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import type { QueuedDelivery } from './queue-intake.ts'

const states = ['running', 'grading', 'allowed', 'success', 'failure', 'cancelled'] as const

/** When a rollout entered each of its states; `allowed` is when its grading might begin. Milliseconds. */
export type StateTimes = Readonly<Partial<Record<(typeof states)[number], number>>>

/** What is known of a rollout when something of it is told. */
export interface KnownRollout {
  readonly record: RolloutRecord
  /** Undefined unless it was asked for. */
  readonly request: RolloutRequest | undefined
  readonly delivery: QueuedDelivery
  /** Without samples while the rollout goes on. */
  readonly workflow: KeptWorkflow
  /** Undefined until there is one. */
  readonly grading: GradingOutcome | undefined
  /** What the acknowledgement of the completion said, if that was told before. */
  readonly report: string | undefined
  readonly times: StateTimes
}

const small = ['delivery', 'workflow', 'report', ...states.map((state) => `at:${state}`)]
const large = ['samples', 'partial', 'grading']

/**
 * Reads what is known of a rollout, as it is at one time. Undefined when there is nothing to tell, yet or
 * any more.
 *
 * @param mayHaveEnded - a hint: what is long is read at once then
 * @param withRequest - whether the request is wanted of one that has ended
 */
export async function readRollout(
  records: RolloutRecords,
  id: string,
  mayHaveEnded: boolean,
  withRequest: boolean,
): Promise<KnownRollout | undefined> {
  const long = mayHaveEnded ? [...large, ...(withRequest ? ['request'] : [])] : []
  const read = await records.readWith(id, [...small, ...long])
  if (read === undefined) return undefined
  const { record, more } = read
  const delivery = more.open('delivery') as QueuedDelivery | undefined
  if (delivery === undefined || !record.has.workflow) return undefined
  const isWhole = isEnded(record.status)
  if (isWhole && !mayHaveEnded) return readRollout(records, id, true, withRequest)
  const workflow = more.workflow(isWhole)
  if (workflow === undefined) return undefined
  return {
    record,
    request: more.open('request') as RolloutRequest | undefined,
    delivery,
    workflow,
    grading: more.grading(workflow.samples) ?? ungraded(workflow, delivery),
    report: more.open('report') as string | undefined,
    times: Object.fromEntries(
      states.flatMap((state) => {
        const at = more.get(`at:${state}`)
        return at === undefined ? [] : [[state, Number(at)] as const]
      }),
    ),
  }
}

/** A workflow that failed is reported again as the reason why nothing was graded. */
function ungraded(
  { outcome: { failure } }: KeptWorkflow,
  { grade }: QueuedDelivery,
): GradingOutcome | undefined {
  if (failure === null || !grade) return undefined
  return { status: 'failure', failure, samples: new Map() }
}
