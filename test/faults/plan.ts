import { pick, type Chance } from './chance.ts'
import type { Harm, HarmedPart, Row } from './served/harms.ts'

/** Who sends a rollout, and how its outcome is delivered. */
type CallerKind = 'callbacks' | 'client' | 'poller' | 'trainer'

/** Everything that is decided about a rollout before it is sent. */
export interface Plan {
  readonly id: string
  readonly kind: CallerKind
  readonly row: Row
  readonly graded: boolean
  /** When it is cancelled. Milliseconds after its acceptance. */
  readonly cancelMs: number | undefined
  /** The status that it is cancelled in, or, when a look at it came too late, after. Default: any, at its time. */
  readonly cancelIn?: 'queued' | 'running' | 'grading' | 'success'
  /** Whether the request is repeated after its acceptance, with the same body or another. */
  readonly repeated: 'same' | 'other' | undefined
  /** Deadline of the workflow. Seconds. */
  readonly deadline: number
  /** Deadline of the grader. Seconds; default: that of the workflow. */
  readonly graderDeadline?: number
}

const kinds: [CallerKind, number][] = [
  ['client', 0.15],
  ['poller', 0.2],
  ['trainer', 0.25],
]

/** Harms that end a worker, and with it other rollouts. They are rare, but in every run. */
const deadlyHarms = new Map<number, Harm>([
  [37, 'block'],
  [137, 'allocate'],
  [237, 'crash'],
])
const deadlyEvery = 300

const workflowHarms: [Harm, number][] = [
  ['throw', 0.025],
  ['exit', 0.015],
  ['timer', 0.015],
  ['rejection', 0.015],
  ['hang', 0.02],
  ['pause', 0.02],
]
/** A loop runs in the process of its server. */
const loopHarms: [Harm, number][] = [
  ['throw', 0.03],
  ['exit', 0.02],
  ['timer', 0.02],
  ['rejection', 0.02],
  ['pause', 0.01],
]
const parts: [HarmedPart, number][] = [
  ['between calls', 0.4],
  ['grading', 0.3],
]

export function planOf(index: number, chance: Chance): Plan {
  const id = `rollout-${index}`
  const kind = pick(chance(id, 'kind'), kinds, 'callbacks')
  const isLoop = kind === 'trainer'
  const when = pick(chance(id, 'when'), parts, 'before asking')
  const harmful = chance(id, 'harm')
  const harm = isLoop
    ? pick<Harm | undefined>(harmful, loopHarms, undefined)
    : pick(harmful, workflowHarms, deadlyHarms.get(index % deadlyEvery))
  const calls = 1 + Math.floor(chance(id, 'calls') * 3)
  const cancelled = !isLoop && chance(id, 'cancel') < 0.07
  const repeated = pick<Plan['repeated']>(
    chance(id, 'repeat'),
    [
      ['same', 0.06],
      ['other', 0.06],
    ],
    undefined,
  )
  return {
    id,
    kind,
    row:
      harm === undefined
        ? { calls }
        : { calls, harm, when: isLoop && when === 'grading' ? 'before asking' : when },
    graded: isLoop || chance(id, 'graded') < 0.95,
    cancelMs: cancelled ? chance(id, 'cancel at') * 1200 : undefined,
    repeated,
    deadline: harm === 'hang' ? 1.5 : 8,
  }
}

/** Whether user code fails its own rollout, unless something else ends it earlier. */
export function failsItself({ row: { harm, when, calls }, graded }: Plan): boolean {
  if (harm === undefined || harm === 'pause' || harm === 'stall') return false
  if (when === 'between calls') return calls > 1
  return when === 'before asking' || graded
}
