import { OsmosisError } from '@osmosis/core'
import {
  afterLoss,
  cancelDispositions,
  endOfPhase,
  isEnded,
  isFinal,
  leaseAfter,
  leaseSteps,
  lifecycleStates,
  stateAfter,
  transitions,
  type LifecycleEvent,
  type LifecycleState,
  type LeaseState,
} from '@osmosis/protocol'
import { LiveRollout, ArtifactsFolder } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

const events = Object.keys(transitions) as LifecycleEvent[]

/** The table of the module again, in the form of the protocol document. */
const expected: Readonly<Record<LifecycleEvent, string>> = {
  //                   queued     running   grading  success failure cancelled
  execution_started: ' queued     queued    -        -       -       -',
  code_started: '      running    -         -        -       -       -',
  policy_called: '     queued     running   -        -       -       -',
  workflow_graded: '   grading    grading   -        -       -       -',
  workflow_succeeded: 'success    success   -        -       -       -',
  workflow_failed: '   failure    failure   -        -       -       -',
  workflow_cancelled: 'cancelled  cancelled -        -       -       -',
  grading_succeeded: ' -          -         success  -       -       -',
  grading_failed: '    -          -         failure  -       -       -',
  grading_cancelled: ' -          -         cancelled -      -       -',
}
/** A success and a first model call are refused after a cancel. */
const afterCancel = ['policy_called', 'workflow_graded', 'workflow_succeeded', 'grading_succeeded']

function stateOf(event: LifecycleEvent, status: LifecycleState): LifecycleState | 'stale' {
  const cell = expected[event].trim().split(/ +/)[lifecycleStates.indexOf(status)]
  return cell === '-' ? 'stale' : (cell as LifecycleState)
}

describe.each(events)('%s', (event) => {
  it.each(lifecycleStates)('from %s', (status) => {
    const next = stateOf(event, status)
    const position = { status, execution: 2, isCancelled: false }
    expect(stateAfter(position, event)).toBe(next)
    expect(stateAfter(position, event, 2)).toBe(next)
    expect(stateAfter(position, event, 1)).toBe('stale')
    const yields = next !== 'stale' && afterCancel.includes(event)
    const cancelled = { ...position, isCancelled: true }
    expect(stateAfter(cancelled, event)).toBe(yields ? 'after_cancel' : next)
    expect(stateAfter(cancelled, event, 1)).toBe('stale')
  })

  it('does the same to a rollout of this process', () => {
    for (const isCancelled of [false, true]) {
      for (const way of waysTo()) {
        const live = rolloutIn(way)
        const status = live.status
        if (isCancelled) live.end(new OsmosisError('cancelled', 'cancelled'))
        const next = stateAfter({ status, isCancelled }, event)
        expect(live.apply(event)).toBe(next)
        const isRefused = next === 'stale' || next === 'after_cancel'
        expect(live.status).toBe(isRefused ? status : next)
      }
    }
  })
})

/** Events that lead to each state. */
function waysTo(): LifecycleEvent[][] {
  const graded = ['code_started', 'policy_called', 'workflow_graded'] as const
  return [
    [],
    ['code_started'],
    [...graded],
    [...graded, 'grading_succeeded'],
    [...graded, 'grading_failed'],
    [...graded, 'grading_cancelled'],
  ]
}

function rolloutIn(way: readonly LifecycleEvent[]): LiveRollout {
  const request = {
    rolloutId: 'r1',
    initialMessages: [],
    label: null,
    metadata: null,
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
  }
  const live = new LiveRollout(request, new ArtifactsFolder('unused', 'r1'))
  for (const event of way) live.apply(event)
  return live
}

it('an ended rollout accepts no event, and only there a cancel is refused', () => {
  for (const status of lifecycleStates) {
    const accepted = events.filter((event) => status in transitions[event].to)
    expect(accepted.length === 0).toBe(isEnded(status))
    expect(cancelDispositions[status] === 'not_found').toBe(isEnded(status))
  }
})

it('the end of a phase maps to its event', () => {
  const failure = (code: 'cancelled' | 'lease_expired' | 'server_shutdown' | 'timeout') =>
    ({ message: 'm', category: 'agent_error', cause: new OsmosisError(code, 'm') }) as const
  const ends = (phase: 'workflow' | 'grading') => [
    endOfPhase(phase, null, true),
    endOfPhase(phase, null),
    endOfPhase(phase, failure('timeout')),
    endOfPhase(phase, failure('server_shutdown')),
    endOfPhase(phase, failure('cancelled')),
    endOfPhase(phase, failure('lease_expired')),
  ]
  expect(ends('workflow')).toEqual([
    'workflow_graded',
    'workflow_succeeded',
    'workflow_failed',
    'workflow_failed',
    'workflow_cancelled',
    'workflow_cancelled',
  ])
  expect(ends('grading')).toEqual([
    'grading_succeeded',
    'grading_succeeded',
    'grading_failed',
    'grading_failed',
    'grading_cancelled',
    'grading_cancelled',
  ])
})

it('a lost rollout is executed again only if it never called the policy', () => {
  const lost = {
    cancelled: false,
    grading: false,
    calledPolicy: false,
    lostWorkers: 1,
    executions: 1,
  }
  expect(afterLoss(lost)).toBe(undefined)
  expect(afterLoss({ ...lost, lostWorkers: 0, executions: 4 })).toBe(undefined)
  expect(afterLoss({ ...lost, lostWorkers: 0, executions: 5 })).toBe('never_started')
  expect(afterLoss({ ...lost, lostWorkers: 2, executions: 5 })).toBe('lost_twice')
  expect(afterLoss({ ...lost, calledPolicy: true, lostWorkers: 2 })).toBe('called_policy')
  expect(afterLoss({ ...lost, calledPolicy: true, grading: true })).toBe('samples_lost')
  expect(afterLoss({ ...lost, calledPolicy: true, cancelled: true })).toBe('cancelled')
})

it('the result of a lease is decided, published and fetched once each, in this order', () => {
  const states: LeaseState[] = ['open', 'decided', 'published', 'fetched']
  const steps = Object.keys(leaseSteps) as (keyof typeof leaseSteps)[]
  expect(steps.map((step) => states.map((state) => leaseAfter(state, step)))).toEqual([
    ['decided', undefined, undefined, undefined],
    [undefined, 'published', undefined, undefined],
    [undefined, undefined, 'fetched', undefined],
  ])
})

it('a callback is settled by its receiver alone', () => {
  expect((['acknowledged', 'refused', 'gave_up'] as const).map(isFinal)).toEqual([
    true,
    true,
    false,
  ])
})
