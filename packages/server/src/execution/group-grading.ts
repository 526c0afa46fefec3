import type {
  OsmosisError,
  FailedMember,
  GroupGraderClass,
  GroupGraderContext,
  GroupMember,
  MetadataOf,
  RolloutSample,
} from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { cloneConfig, requireLabel } from '@osmosis/core/workflow'

import { type Deadline, graderDeadline } from './deadline.ts'
import { assertRewarded, graded, notGraded } from './grading-phase.ts'
import type { LiveRollout } from './live-rollout.ts'
import { SampleGrading } from './sample-grading.ts'
import type { ConcurrencyLimiter } from './slots/concurrency-limiter.ts'
import { toFailure } from './workflow-phase.ts'

/** A group, and how many attempts it has. */
export interface SizedGroup {
  readonly id: string
  readonly size: number
}

/** An attempt that waits for its group. */
export interface WaitingMember {
  readonly attempt: number
  readonly live: LiveRollout
  readonly samples: ReadonlyMap<string, RolloutSample>
  /** Called when it has been graded. */
  readonly resolve: () => void
  /** Called when it will not be graded. */
  readonly reject: (why: unknown) => void
}

/** A group that accepts no more attempts. */
export interface GatheredGroup extends SizedGroup {
  readonly waiting: readonly WaitingMember[]
  readonly failed: readonly FailedMember[]
}

/** How groups are graded. */
export interface GroupGrading<TConfig, TWorkflowConfig> {
  readonly grader: GroupGraderClass<TConfig, TWorkflowConfig>
  readonly config: TConfig
  readonly slots: ConcurrencyLimiter
  /** A group with fewer gradable attempts is not graded. */
  readonly minSize: number
}

/** Grades the waiting members of a group: each is resolved or rejected. Never rejects. */
export async function gradeGroup<TConfig, TWorkflowConfig>(
  group: GatheredGroup,
  { grader, config, slots, minSize }: GroupGrading<TConfig, TWorkflowConfig>,
): Promise<void> {
  const abandoned = whenAbandoned(group.waiting)
  let release: (() => void) | undefined
  let deadline: Deadline | undefined
  try {
    release = await slots.acquire(abandoned.signal)
    const members = group.waiting.filter(({ live }) => live.endedWith === undefined)
    const [first] = members
    if (first === undefined || members.length < minSize) throw tooFew(group, members, minSize)
    const timeouts = members.flatMap(({ live }) => live.request.graderTimeoutSeconds ?? [])
    const phase = graderDeadline({
      rolloutId: first.live.request.rolloutId,
      graderTimeoutSeconds: timeouts.length === 0 ? null : Math.min(...timeouts),
    })
    deadline = phase
    abandoned.signal.addEventListener('abort', () => {
      phase.abort(abandoned.signal.reason as OsmosisError)
    })
    const copy = cloneConfig(config)
    const context = contextOf<TConfig, TWorkflowConfig>(group, members, copy, phase.signal)
    let judged: Promise<void> | undefined
    // User code runs in the span of the first member.
    const judge = (): Promise<void> =>
      (judged ??= phase
        .run(async () => {
          await new grader(copy).gradeGroup(context)
        })
        // Before the first member is told, because what the grader left behind changes nothing more.
        .finally(() => {
          phase.clear()
          phase.abort(graded)
        }))
    await Promise.all(members.map(async (member) => settle(member, grader.name, judge)))
  } catch (error) {
    for (const { reject } of group.waiting) reject(error)
  } finally {
    release?.()
    deadline?.clear()
    abandoned.release()
  }
}

async function settle(
  { live, samples, resolve, reject }: WaitingMember,
  grader: string,
  judge: () => Promise<void>,
): Promise<void> {
  const grade = async (): Promise<void> => {
    await untilAborted(live.ending, judge)
    assertRewarded(samples)
    live.trace?.rewarded(samples)
  }
  try {
    await (live.trace === undefined ? grade() : live.trace.grading(grader, grade))
    resolve()
  } catch (error) {
    reject(error)
  }
}

function contextOf<TConfig, TWorkflowConfig>(
  group: GatheredGroup,
  living: readonly WaitingMember[],
  config: TConfig,
  signal: AbortSignal,
): GroupGraderContext<TConfig, TWorkflowConfig> {
  const { id, size, waiting } = group
  const [first] = waiting
  const ended = waiting.filter((member) => !living.includes(member)).map(endedMember)
  const failed = [...group.failed, ...ended].toSorted((a, b) => a.attempt - b.attempt)
  const present = new Set([...waiting, ...failed].map(({ attempt }) => attempt))
  const label = first?.live.request.label ?? null
  return {
    group: { id, size },
    label,
    requireLabel: () => requireLabel(label),
    metadata: first?.live.metadata as MetadataOf<TWorkflowConfig>,
    members: living.map((member) => new MemberGrading(member, signal)),
    failed,
    missing: Array.from({ length: size }, (_, index) => index + 1).filter((n) => !present.has(n)),
    complete: living.length === size,
    config,
    signal,
  }
}

/** A member that was cancelled while its group waited for a slot. */
function endedMember({ attempt, live }: WaitingMember): FailedMember {
  const { category, message } = toFailure(live.endedWith)
  return { attempt, rolloutId: live.request.rolloutId, category, message }
}

function tooFew(
  { id, size }: GatheredGroup,
  { length }: readonly WaitingMember[],
  minSize: number,
): Error {
  return notGraded(
    `Group "${id}" has samples from ${length} of its ${size} attempts, but grading needs ${minSize} (group.minSize of the grader's config).`,
  )
}

/** Aborted when all of these rollouts have been ended early. */
function whenAbandoned(members: readonly WaitingMember[]): {
  readonly signal: AbortSignal
  readonly release: () => void
} {
  const abandoned = new AbortController()
  const onEnd = (): void => {
    if (members.every(({ live }) => live.endedWith !== undefined)) {
      abandoned.abort(members[0]?.live.endedWith)
    }
  }
  for (const { live } of members) live.ending.addEventListener('abort', onEnd)
  onEnd()
  return {
    signal: abandoned.signal,
    release: () => {
      for (const { live } of members) live.ending.removeEventListener('abort', onEnd)
    },
  }
}

class MemberGrading extends SampleGrading<unknown, unknown> implements GroupMember {
  readonly attempt: number

  constructor({ attempt, live, samples }: WaitingMember, signal: AbortSignal) {
    super(live, samples, undefined, AbortSignal.any([signal, live.ending]))
    this.attempt = attempt
  }
}
