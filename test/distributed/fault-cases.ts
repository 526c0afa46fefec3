import type { DeliveredFailure } from '../faults/account.ts'
import { pick, type Chance } from '../faults/chance.ts'
import { failsItself, type Plan } from '../faults/plan.ts'
import type { Harm } from '../faults/served/harms.ts'
import type { Standby } from './fleet.ts'
import {
  cutEvents,
  failOver,
  killServers,
  killWorkers,
  loseHeartbeats,
  restartRedis,
  stopWorkers,
  type Incident,
} from './incidents.ts'

/** One case of faults. */
export interface FaultCase {
  /** Concurrent rollouts, in total and in a worker. Default: 64 and 32. */
  readonly inFlight?: number
  readonly concurrency?: number
  /** Clock skew of servers and workers. Seconds; default: 0. */
  readonly skewSeconds?: number
  /** Changes to the plan of a rollout. */
  readonly change?: (plan: Plan, index: number, chance: Chance) => Partial<Plan>
  readonly incidents?: readonly Incident[]
  /** What takes the place of its Redis. Default: nothing. */
  readonly standby?: Standby
  /** Whether workers are lost. Default: false. */
  readonly losesWorkers?: boolean
  /** Causes that a failure may name, besides the harm of its own rollout. */
  readonly causes?: readonly Cause[]
  /** Outcomes and faults that must occur, or the case has tested nothing. */
  readonly shows: readonly RegExp[]
}

interface Cause {
  readonly text: RegExp
  /** Default: any. */
  readonly category?: string
}

const lost: Cause = {
  text: /^the worker was lost after (\d+) model calls?;/,
  category: 'agent_error',
}
const notGraded: Cause = {
  text: /^the worker was lost; the samples of the rollout were in it, so they are not graded$/,
  category: 'agent_error',
}
const downedTwo: Cause = {
  text: /^the worker was lost; it is the second worker that was lost while it executed this rollout$/,
  category: 'agent_error',
}
const losses = [lost, notGraded, downedTwo]
/** A fetched result has its own status for it, without category, and without text if it was queued. */
const cancelled: Cause = { text: /^(cancelled)?$/ }
const tooLate: Cause = {
  text: /^(workflow|grader) exceeded its [\d.]+s deadline/,
  category: 'timeout',
}

/** The failures of rollouts that harm themselves or their worker. */
const harmful: Readonly<Partial<Record<Harm, readonly Cause[]>>> = {
  throw: [{ text: /^thrown by (?:run|grade)\(\) at .*: thrown$/, category: 'agent_error' }],
  exit: [{ text: /process\.exit/, category: 'agent_error' }],
  rejection: [{ text: /forgotten await/, category: 'agent_error' }],
  hang: [tooLate],
  crash: losses,
}

const startedAgain = /^workers: a rollout is started for the 2\. time$/

/** So few that most rollouts are queued, even when a busy machine accepts them slowly. */
const fewPlaces = 6

const failoversShown = [
  /^fleet: Redis and its replica change roles/,
  /^fleet: SIGKILL of Redis, whose/,
]

export const faultCases = {
  'killed workers': {
    incidents: [killWorkers],
    losesWorkers: true,
    causes: losses,
    shows: [/^failure: the worker was lost/, startedAgain],
  },
  'stopped workers': {
    incidents: [stopWorkers],
    losesWorkers: true,
    causes: losses,
    shows: [/^failure: the worker was lost/, startedAgain],
  },
  'killed servers': {
    incidents: [killServers],
    shows: [/^fleet: SIGKILL of a server/],
  },
  'killed Redis': {
    incidents: [restartRedis],
    shows: [/^fleet: SIGKILL of Redis/],
  },
  failovers: {
    standby: 'replica',
    incidents: [failOver],
    shows: failoversShown,
  },
  sentinels: {
    standby: 'sentinels',
    incidents: [failOver],
    shows: failoversShown,
  },
  'lost events': {
    incidents: [cutEvents],
    shows: [/^fleet: events are lost/, /^fleet: all subscriptions/],
  },
  'lost heartbeats': {
    incidents: [loseHeartbeats],
    losesWorkers: true,
    causes: losses,
    shows: [/^fleet: heartbeats are lost/, /^failure: the worker was lost/],
  },
  cancels: {
    inFlight: 128,
    concurrency: fewPlaces,
    change: ({ id, row }, index, chance) => {
      // The first ones hold the places of all three workers, so that others are queued however slowly a busy machine
      // accepts them.
      if (index < 3 * fewPlaces) {
        const hangs = { ...row, harm: 'hang', when: 'before asking' } as const
        return { deadline: 60, cancelMs: 8000, cancelIn: 'running', row: hangs }
      }
      // A time reaches whatever status the speed of the machine makes of it, so some wait for theirs.
      if (index % 20 === 3) return { cancelMs: 0, cancelIn: 'queued' }
      if (index % 20 === 5) return { cancelMs: 0, cancelIn: 'running' }
      if (index % 20 === 9) return { cancelMs: 0, cancelIn: 'success' }
      // Grading is short: without rollouts whose grader waits, few cancels would reach it.
      if (index % 20 === 7) {
        const hangs = { ...row, harm: 'hang', when: 'grading' } as const
        return { graded: true, graderDeadline: 60, cancelMs: 0, cancelIn: 'grading', row: hangs }
      }
      return chance(id, 'cancelled') < 0.7 ? { cancelMs: chance(id, 'cancel at') * 4000 } : {}
    },
    shows: [
      /^caller: cancels a rollout that is queued/,
      /^caller: cancels a rollout that is running/,
      /^caller: cancels a rollout that is grading/,
      /^caller: cancels a rollout that is success/,
    ],
  },
  deadlines: {
    inFlight: 128,
    concurrency: fewPlaces,
    skewSeconds: 5,
    change: ({ row }, index) => {
      const [inQueue, inWorkflow, inGrading] = [0, 1, 2].map((rest) => index % 5 === rest)
      if (inQueue) return { deadline: 0.4 }
      if (inWorkflow) return { deadline: 4, row: { ...row, harm: 'hang', when: 'before asking' } }
      if (!inGrading) return {}
      return { graded: true, graderDeadline: 0.5, row: { ...row, harm: 'hang', when: 'grading' } }
    },
    causes: [tooLate],
    shows: [/^failure: workflow exceeded .* spent queued/, /^failure: grader exceeded/],
  },
  'blocked event loops': {
    change: ({ row }, index) =>
      index % 120 === 20 ? { row: { ...row, harm: 'stall', when: 'before asking' } } : {},
    losesWorkers: true,
    causes: losses,
    shows: [/^failure: the worker was lost/],
  },
  poison: {
    change: ({ row }, index) => {
      if (index % 160 === 20) return { row: { ...row, harm: 'crash', when: 'before asking' } }
      if (index % 160 === 100) return { row: { ...row, harm: 'crash', when: 'between calls' } }
      return index % 40 === 1 ? { row: { ...row, harm: 'exit', when: 'between calls' } } : {}
    },
    losesWorkers: true,
    causes: losses,
    shows: [/^failure: the worker was lost/, /second worker/, startedAgain],
  },
  everything: {
    change: ({ id, row }, index, chance) => ({
      ...(chance(id, 'cancelled') < 0.1 ? { cancelMs: chance(id, 'cancel at') * 3000 } : {}),
      ...(index % 170 === 50 ? { row: { ...row, harm: 'crash', when: 'before asking' } } : {}),
      ...(index % 20 === 3
        ? { row: { ...row, harm: 'hang', when: 'grading' }, graderDeadline: 1 }
        : {}),
    }),
    incidents: [killWorkers, stopWorkers, killServers, restartRedis, cutEvents],
    losesWorkers: true,
    causes: losses,
    shows: [
      /^fleet: SIGKILL of a worker/,
      /^fleet: SIGKILL of a server/,
      /^fleet: SIGKILL of Redis/,
    ],
  },
} as const satisfies Readonly<Record<string, FaultCase>>

export type CaseName = keyof typeof faultCases

export function isCaseName(name: string): name is CaseName {
  return Object.hasOwn(faultCases, name)
}

/** An ordinary rollout, with what its case changes. */
export function planOf(
  name: CaseName,
  index: number,
  { chance, noteUrl }: { chance: Chance; noteUrl: string },
): Plan {
  const id = `${name.replaceAll(' ', '-')}-${index}`
  const repeated = chance(id, 'repeat')
  const isIdle = chance(id, 'idle') < 0.4
  const plan: Plan = {
    id,
    kind: pick<Plan['kind']>(
      chance(id, 'kind'),
      [
        ['client', 0.2],
        ['poller', 0.3],
      ],
      'callbacks',
    ),
    row: {
      calls: 1 + Math.floor(chance(id, 'calls') * 4),
      noteUrl: `${noteUrl}/${id}/started`,
      ...(isIdle ? { idleMs: 100 + Math.floor(chance(id, 'idle for') * 900) } : {}),
    },
    graded: chance(id, 'graded') < 0.9,
    cancelMs: undefined,
    repeated: pick<Plan['repeated']>(
      repeated,
      [
        ['same', 0.05],
        ['other', 0.05],
      ],
      undefined,
    ),
    deadline: 90,
  }
  const { change }: FaultCase = faultCases[name]
  return { ...plan, ...change?.(plan, index, chance) }
}

/** Returns why a failure is implausible in this case. */
export function doubtOf(name: CaseName): (failure: DeliveredFailure) => string | undefined {
  const { causes = [] }: FaultCase = faultCases[name]
  return ({ plan, text, category, wasCancelled, calls }) => {
    // A caller that looked up the status does not know why the rollout failed.
    if (text === 'looked up') return undefined
    const possible = [
      ...causes,
      ...(wasCancelled || plan.cancelMs !== undefined ? [cancelled] : []),
    ]
    const { harm } = plan.row
    if (harm !== undefined && failsItself(plan)) possible.push(...(harmful[harm] ?? []))
    const cause = possible.find((one) => one.text.test(text))
    if (cause === undefined) return 'failed without a known cause'
    if (category !== undefined && category !== (cause.category ?? category)) {
      return 'is in another category'
    }
    const counted = Number(cause.text.exec(text)?.[1] ?? 0)
    // The last counted call may not have been sent.
    return counted > calls + 1 ? `made ${calls} model calls, but counts more` : undefined
  }
}
