import { isDeepStrictEqual } from 'node:util'

import { OsmosisError, type RolloutSample, type FailedMember } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import type { RolloutFailure, RolloutRequest } from './execution-backend.ts'
import type { LiveRollout } from './live-rollout.ts'

/** A group, and how many attempts it has. */
interface SizedGroup {
  readonly id: string
  readonly size: number
}

/** An attempt that waits for its group. */
export interface WaitingMember {
  readonly attempt: number
  readonly live: LiveRollout
  readonly samples: ReadonlyMap<string, RolloutSample>
  /** It has been graded. */
  readonly resolve: () => void
  /** It will not be. */
  readonly reject: (why: unknown) => void
}

/** A group that nobody can join any more. */
export interface GatheredGroup extends SizedGroup {
  readonly waiting: readonly WaitingMember[]
  readonly failed: readonly FailedMember[]
}

/** What becomes of a group: one of these is called, once. */
export interface GroupEnds {
  /** At least one of its attempts waits to be graded. */
  gathered(group: GatheredGroup): void
  /** It will never be graded, for this reason; nobody waits for it. */
  over(why: string): void
}

/**
 * The attempts of a group until it is graded. None is given up while it runs: its own deadline ends it.
 * Those that nobody has heard of are waited for when nothing of the group runs.
 */
export class GatheringGroup {
  readonly #group: SizedGroup
  /** Says what is the same for all of them. */
  readonly #first: RolloutRequest
  readonly #waitMs: number
  readonly #ends: GroupEnds
  readonly #running = new Set<LiveRollout>()
  readonly #waiting = new Map<number, WaitingMember>()
  readonly #failed = new Map<number, FailedMember>()
  /** Attempts of those that failed which are to be run again. */
  readonly #retried = new Set<number>()
  #timer: NodeJS.Timeout | undefined

  constructor(group: SizedGroup, first: RolloutRequest, waitSeconds: number, ends: GroupEnds) {
    this.#group = group
    this.#first = first
    this.#waitMs = waitSeconds * 1000
    this.#ends = ends
  }

  /** An attempt has come. */
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
   * Waits until an attempt that has samples is graded.
   *
   * @throws OsmosisError with code `not_graded`; what the grader threw; why the rollout was ended
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
          `Attempt ${attempt} of group "${this.#group.id}" is there already, as rollout "${other}".`,
        ),
      )
    }
    this.#look()
    await untilAborted(live.ending, async () => promise)
  }

  /** An attempt has ended and can not be graded. Does nothing for one that is not of this group. */
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
    // Nobody's result is held up: there is no reason for the process to stay.
    if (this.#waiting.size === 0) this.#timer.unref()
  }

  #close(): void {
    if (this.#waiting.size === 0) {
      this.#ends.over(`Group "${this.#group.id}" was over: none of its attempts could be graded.`)
      return
    }
    const waiting = byAttempt(this.#waiting.values())
    const failed = byAttempt(this.#failed.values())
    this.#ends.gathered({ ...this.#group, waiting, failed })
  }

  #refuse(difference: string): void {
    clearTimeout(this.#timer)
    const why = `The attempts of group "${this.#group.id}" do not belong together: ${difference}`
    this.#ends.over(why)
    for (const { reject } of this.#waiting.values()) reject(notGraded(why))
  }
}

export function notGraded(why: string): OsmosisError {
  return new OsmosisError('not_graded', why)
}

function byAttempt<T extends { readonly attempt: number }>(members: Iterable<T>): T[] {
  return [...members].toSorted((a, b) => a.attempt - b.attempt)
}

/** What is not the same for two attempts, as a sentence; undefined when they are of the same row. */
function differenceOf(one: RolloutRequest, other: RolloutRequest): string | undefined {
  const pair = `rollouts "${one.rolloutId}" and "${other.rolloutId}"`
  const sizes = [one.group?.size, other.group?.size]
  if (sizes[0] !== sizes[1]) return `${pair} say that it has ${sizes.join(' and ')} attempts.`
  if (one.label !== other.label) return `${pair} have different labels.`
  if (isDeepStrictEqual(one.metadata, other.metadata)) return undefined
  return `${pair} have different metadata.`
}
