import { errorMessage, OsmosisError } from '@osmosis/core'
import {
  afterLoss,
  cancelDispositions,
  isEnded,
  lifecycleStates,
  stateAfter,
  transitions,
  type LifecycleEvent,
  type LifecycleState,
} from '@osmosis/protocol'
import { toFailure } from '@osmosis/server/execution'
import type { Redis } from 'ioredis'
import { expect } from 'vitest'

import { withPrograms } from '../../../test/kit/index.ts'
import type { RolloutQueue } from '../src/queue/rollout-queue.ts'
import type { QueuedExecution } from '../src/records/queued-executions.ts'
import {
  entry,
  graded,
  lookInto,
  openQueue,
  samples,
  succeeded,
  taker,
} from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

const current = 2
const other = 1

/** A record that is written directly into Redis. */
interface Position {
  readonly status: LifecycleState
  readonly isCancelled: boolean
}

const positions: readonly Position[] = lifecycleStates.flatMap((status) =>
  [false, true].map((isCancelled) => ({ status, isCancelled })),
)

async function place(
  queue: RolloutQueue,
  redis: Redis,
  id: string,
  { status, isCancelled }: Position,
): Promise<void> {
  await queue.records.accept(entry({ id }))
  const fields = { status, run: current, worker: 'w', token: 't', calls: 0 }
  const cancel = isCancelled ? { cancel: queue.records.seal(id, 'cancel', { value: 'x' }) } : {}
  await redis.hset(`osmosis:rollout:${id}`, { ...fields, ...cancel })
}

/** Reports an event as a worker does, and returns the answer of the queue. */
async function report(
  queue: RolloutQueue,
  event: LifecycleEvent,
  of: QueuedExecution,
): Promise<string> {
  const { runs } = queue
  const failed = { status: 'failure', failure: toFailure(new Error('x')), warnings: [] } as const
  const cancelled = {
    ...failed,
    failure: toFailure(new OsmosisError('cancelled', 'cancelled')),
  }
  const accepted = async (answer: Promise<boolean>): Promise<string> =>
    (await answer) ? 'stored' : 'refused'
  switch (event) {
    case 'execution_started':
      throw new Error('is not reported by an execution')
    case 'code_started':
      return accepted(runs.begin(of))
    case 'policy_called':
      return accepted(runs.mark(of))
    case 'workflow_graded':
      return runs.settleWorkflow(of, succeeded, samples(), true)
    case 'workflow_succeeded':
      return runs.settleWorkflow(of, succeeded, samples(), false)
    case 'workflow_failed':
      return runs.settleWorkflow(of, failed, samples(), true)
    case 'workflow_cancelled':
      return runs.settleWorkflow(of, cancelled, samples(), true)
    case 'grading_succeeded':
      return runs.settleGrading(of, graded)
    case 'grading_failed':
      return runs.settleGrading(of, { ...graded, status: 'failure', failure: failed.failure })
    case 'grading_cancelled':
      return runs.settleGrading(of, { ...graded, status: 'failure', failure: cancelled.failure })
  }
}

it('follows the lifecycle table in Redis, in every state and for every event', async () => {
  const { queue, redis } = await openQueue()
  const client = lookInto(redis)
  const events = (Object.keys(transitions) as LifecycleEvent[]).filter(
    (event) => event !== 'execution_started',
  )
  const cases = events.flatMap((event) =>
    positions.flatMap((position) =>
      [current, other].map((execution) => ({ event, execution, ...position })),
    ),
  )
  const seen = await Promise.all(
    cases.map(async ({ event, execution, ...position }, n) => {
      const id = `r${n}`
      await place(queue, client, id, position)
      const answer = await report(queue, event, { id, run: execution })
      return { answer, status: (await queue.records.read(id))?.status }
    }),
  )
  const wanted = cases.map(({ event, execution, ...position }) => {
    const next = stateAfter({ ...position, execution: current }, event, execution)
    const isRefused = next === 'stale' || next === 'after_cancel'
    const mayOnlyRefuse = event === 'code_started' || event === 'policy_called'
    const refusal = mayOnlyRefuse ? 'refused' : next
    return { answer: isRefused ? refusal : 'stored', status: isRefused ? position.status : next }
  })
  expect(cases.map((one, n) => ({ ...one, ...seen[n] }))).toEqual(
    cases.map((one, n) => ({ ...one, ...wanted[n] })),
  )
})

it('executes a lost rollout again only if the lifecycle rules allow it', async () => {
  const { queue, redis } = await openQueue()
  const client = lookInto(redis)
  const cases = positions.flatMap((position) =>
    [false, true].flatMap((calledPolicy) =>
      [0, 1, 2].flatMap((lostBefore) =>
        [false, true].flatMap((hasStarted) =>
          [1, 2, 4, 5].map((executions) => ({
            ...position,
            calledPolicy,
            lostBefore,
            hasStarted,
            executions,
          })),
        ),
      ),
    ),
  )
  const seen = await Promise.all(
    cases.map(async (one, n) => {
      const id = `r${n}`
      await place(queue, client, id, one)
      const { executions, calledPolicy, lostBefore, hasStarted } = one
      await client.hset(`osmosis:rollout:${id}`, {
        run: executions,
        downed: lostBefore,
        ...(calledPolicy ? { asked: executions } : {}),
        ...(hasStarted ? { began: executions } : {}),
      })
      const taken = await queue.runs.take(id, taker('w2', { lockMs: 0 }))
      const reason = taken.what === 'lost' ? taken.reason : undefined
      const { status, run } = (await queue.records.read(id)) ?? {}
      return { what: taken.what, message: reason && errorMessage(reason), status, run }
    }),
  )
  const texts = {
    cancelled: 'x',
    samples_lost: /samples of the rollout/,
    called_policy: /had called the policy/,
    lost_twice: /second worker/,
    never_started: /no worker has lived/,
  } as const
  const wanted = cases.map((one) => {
    const { status, isCancelled: cancelled, calledPolicy, executions, lostBefore, hasStarted } = one
    const next = stateAfter({ status, isCancelled: false }, 'execution_started')
    const lostWorkers = lostBefore + Number(hasStarted)
    const reason = afterLoss({ cancelled, grading: false, calledPolicy, lostWorkers, executions })
    const unchanged = { message: undefined, status, run: executions }
    if (next === 'stale') return { what: 'ended', ...unchanged }
    if (reason === undefined)
      return { ...unchanged, what: 'run', status: next, run: executions + 1 }
    const message: unknown = expect.stringMatching(texts[reason])
    return { ...unchanged, what: 'lost', message }
  })
  expect(cases.map((one, n) => ({ ...one, ...seen[n] }))).toEqual(
    cases.map((one, n) => ({ ...one, ...wanted[n] })),
  )
})

it('answers a cancel by the table, once for callbacks, and each time for a lease', async () => {
  const { queue, redis } = await openQueue()
  const client = lookInto(redis)
  for (const kind of ['callbacks', 'lease'] as const) {
    for (const status of lifecycleStates) {
      const id = `${kind}-${status}`
      await queue.records.accept(entry({ id, kind }))
      await client.hset(`osmosis:rollout:${id}`, { status, run: current })
      const cancel = async () => (await queue.cancel({ ids: [id] })).get(id)
      const first = cancelDispositions[status]
      const second = kind === 'lease' ? first : 'not_found'
      expect({ id, answers: [await cancel(), await cancel()] }).toEqual({
        id,
        answers: [first, second],
      })
      expect((await queue.records.read(id))?.status).toBe(status)
      expect(isEnded(status)).toBe(first === 'not_found')
    }
  }
})
