import { isDeepStrictEqual } from 'node:util'

import type { FailedMember, RolloutGroup, RolloutSample } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { groupSettings } from '@osmosis/core/workflow'
import type { GradingOutcome, RolloutFailure, RolloutRequest } from '@osmosis/protocol'
import { RolloutMemory } from '@osmosis/protocol/http'

import { assertSamples, notGraded, nothingToGradeAgainst } from './grading-phase.ts'
import {
  gradeGroup,
  type GatheredGroup,
  type GroupGrading,
  type SizedGroup,
  type WaitingMember,
} from './group-grading.ts'
import type { LiveRollout } from './live-rollout.ts'
import { toFailure, type WorkflowResult } from './workflow-phase.ts'

/** How long the reason is remembered why a group is closed. Milliseconds. */
const rememberedMs = 60 * 60_000

/** The groups of a backend: each is gathered, graded once, and then forgotten except for its id. */
export class RolloutGroups<TConfig, TWorkflowConfig> {
  readonly #gathering = new Map<string, GatheringGroup>()
  /** Why a group accepts no more attempts, by its id. */
  readonly #closed = new RolloutMemory<string>({ maxAgeMs: rememberedMs })
  readonly #grading: GroupGrading<TConfig, TWorkflowConfig>
  readonly #waitSeconds: number

  constructor(parts: Omit<GroupGrading<TConfig, TWorkflowConfig>, 'minSize'>) {
    const { waitSeconds, minSize } = groupSettings(parts.config)
    this.#grading = { ...parts, minSize }
    this.#waitSeconds = waitSeconds
  }

  /**
   * Called before a rollout runs: its group waits for it.
   *
   * @throws OsmosisError with code `not_graded` when its group is closed, so that it could not be graded
   */
  begin(live: LiveRollout): void {
    const { group, grade } = live.request
    if (!grade || problemOf(group) !== undefined) return
    const { id, size = 0 } = group ?? { id: '' }
    const reason = this.#closed.get(id)
    if (reason !== undefined) throw notGraded(reason)
    let gathering = this.#gathering.get(id)
    if (gathering === undefined) {
      gathering = new GatheringGroup({ id, size }, live.request, this.#waitSeconds, {
        gathered: (gathered) => {
          this.#close(id, `Group "${id}" was already graded when this attempt arrived.`)
          gradeGroup(gathered, this.#grading).catch(() => {})
        },
        closed: (why) => this.#close(id, why),
      })
      this.#gathering.set(id, gathering)
    }
    gathering.begin(live)
  }

  /** Called when a rollout has ended without samples that can be graded, after that was reported. */
  failed(live: LiveRollout, failure: RolloutFailure): void {
    const { group } = live.request
    if (group) this.#gathering.get(group.id)?.fail(live, failure)
  }

  /** Waits until the group of a rollout has been graded. Never rejects. */
  async grade(live: LiveRollout, result: WorkflowResult): Promise<GradingOutcome> {
    const { samples } = result
    try {
      assertSamples(live, result)
      const { group, label, metadata } = live.request
      if (label === null && metadata === null) throw notGraded(nothingToGradeAgainst)
      const problem = problemOf(group)
      if (problem !== undefined) throw notGraded(problem)
      const { id, attempt } = group as RolloutGroup
      const gathering = this.#gathering.get(id)
      if (gathering === undefined)
        throw notGraded(this.#closed.get(id) ?? `Group "${id}" is closed.`)
      await gathering.arrive(live, attempt, samples)
      return { status: 'success', failure: null, samples }
    } catch (error) {
      const failure = toFailure(error, 'gradeGroup()')
      this.failed(live, failure)
      live.trace?.fail(error)
      return { status: 'failure', failure, samples }
    }
  }

  #close(id: string, why: string): void {
    this.#gathering.delete(id)
    this.#closed.end(id, why)
  }
}

/** Why a rollout cannot be graded with others; undefined when it can. */
function problemOf(group: RolloutGroup | undefined): string | undefined {
  if (group?.size === undefined) {
    const lacks = group === undefined ? 'a group' : 'the size of its group'
    return `The grader judges all attempts at a row together, and this rollout was sent without ${lacks}. ${groupSources}`
  }
  const { id, attempt, size } = group
  if (attempt >= 1 && attempt <= size) return undefined
  return `This is attempt ${attempt} of group "${id}", which has ${size}.`
}

const groupSources =
  'Groups come from evaluations (osmosis eval run --n), osmosis worker --agent-lightning and osmosis serve --run with --group-column and --group-size, and controllers that send "group". For others, use a Grader.'

/** How the gathering of a group ends: one of these is called, once. */
interface GatheringEnds {
  /** At least one of its attempts waits to be graded. */
  gathered(group: GatheredGroup): void
  /** The group will never be graded, for this reason; no attempt waits for it. */
  closed(why: string): void
}

/**
 * The attempts of a group until it is graded. It waits for every attempt that runs, which its own
 * deadline ends, and for a limited time for attempts that have not arrived when none runs.
 */
class GatheringGroup {
  readonly #group: SizedGroup
  /** Its label, metadata and size hold for all of them. */
  readonly #first: RolloutRequest
  readonly #waitMs: number
  readonly #ends: GatheringEnds
  readonly #running = new Set<LiveRollout>()
  readonly #waiting = new Map<number, WaitingMember>()
  readonly #failed = new Map<number, FailedMember>()
  /** Numbers of the failed attempts that will be run again. */
  readonly #retried = new Set<number>()
  #timer: NodeJS.Timeout | undefined

  constructor(group: SizedGroup, first: RolloutRequest, waitSeconds: number, ends: GatheringEnds) {
    this.#group = group
    this.#first = first
    this.#waitMs = waitSeconds * 1000
    this.#ends = ends
  }

  /** An attempt has arrived. */
  begin(live: LiveRollout): void {
    const difference = differenceOf(this.#first, live.request)
    if (difference !== undefined) {
      this.#refuse(difference)
      return
    }
    this.#running.add(live)
    this.#look()
  }

  /**
   * Called for an attempt with samples. Waits until it is graded.
   *
   * @throws OsmosisError with code `not_graded`; the error of the grader; the reason why the rollout was ended
   */
  async arrive(
    live: LiveRollout,
    attempt: number,
    samples: ReadonlyMap<string, RolloutSample>,
  ): Promise<void> {
    this.#running.delete(live)
    const earlier = this.#waiting.get(attempt)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    if (earlier === undefined) {
      this.#failed.delete(attempt)
      this.#retried.delete(attempt)
      this.#waiting.set(attempt, { attempt, live, samples, resolve, reject })
    } else {
      const other = earlier.live.request.rolloutId
      reject(
        notGraded(
          `Attempt ${attempt} of group "${this.#group.id}" has already arrived, as rollout "${other}".`,
        ),
      )
    }
    this.#look()
    await untilAborted(live.ending, async () => promise)
  }

  /** An attempt has ended and cannot be graded. Does nothing for one that is not of this group. */
  fail(live: LiveRollout, { category, message }: RolloutFailure): void {
    const { rolloutId, group, retriedAfter = [] } = live.request
    const attempt = group?.attempt ?? 0
    const isWaiting = this.#waiting.get(attempt)?.live === live
    if (!this.#running.delete(live) && !isWaiting) return
    if (isWaiting) this.#waiting.delete(attempt)
    if (!this.#waiting.has(attempt)) {
      this.#failed.set(attempt, { attempt, rolloutId, category, message })
      const isRetried = retriedAfter.includes(category) && live.endedWith === undefined
      if (isRetried) this.#retried.add(attempt)
      else this.#retried.delete(attempt)
    }
    this.#look()
  }

  #look(): void {
    clearTimeout(this.#timer)
    if (this.#running.size > 0) return
    if (this.#waiting.size + this.#failed.size - this.#retried.size >= this.#group.size) {
      this.#close()
      return
    }
    this.#timer = setTimeout(() => this.#close(), this.#waitMs)
    // No attempt waits for its result, so the timer must not keep the process alive.
    if (this.#waiting.size === 0) this.#timer.unref()
  }

  #close(): void {
    if (this.#waiting.size === 0) {
      this.#ends.closed(
        `Group "${this.#group.id}" is closed: none of its attempts could be graded.`,
      )
      return
    }
    const waiting = byAttempt(this.#waiting.values())
    const failed = byAttempt(this.#failed.values())
    this.#ends.gathered({ ...this.#group, waiting, failed })
  }

  #refuse(difference: string): void {
    clearTimeout(this.#timer)
    const why = `The attempts of group "${this.#group.id}" do not belong together: ${difference}`
    this.#ends.closed(why)
    for (const { reject } of this.#waiting.values()) reject(notGraded(why))
  }
}

function byAttempt<T extends { readonly attempt: number }>(members: Iterable<T>): T[] {
  return [...members].toSorted((a, b) => a.attempt - b.attempt)
}

/** How two attempts differ, as a sentence; undefined when they are attempts at the same row. */
function differenceOf(one: RolloutRequest, other: RolloutRequest): string | undefined {
  const pair = `rollouts "${one.rolloutId}" and "${other.rolloutId}"`
  const sizes = [one.group?.size, other.group?.size]
  if (sizes[0] !== sizes[1]) return `${pair} say that it has ${sizes.join(' and ')} attempts.`
  if (one.label !== other.label) return `${pair} have different labels.`
  if (isDeepStrictEqual(one.metadata, other.metadata)) return undefined
  return `${pair} have different metadata.`
}
