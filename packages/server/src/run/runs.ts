import type { RolloutGroup } from '@osmosis/core'
import type { TraceHeaders } from '@osmosis/core/http'
import type { ExecutionBackend, RolloutRequest } from '@osmosis/runtime'
import { RolloutMemory } from '@osmosis/runtime/http'
import type { RunRequestBody } from '@osmosis/runtime/wire'

import type { Logger } from '../logging/logger.ts'
import { warnOfStepRewards } from '../rollout/result-delivery.ts'
import type { RolloutRequests } from '../rollout/rollout-requests.ts'
import type { Admission } from '../work/admission.ts'
import { toRunAnswer } from './run-answer.ts'
import type { RunRouteOptions } from './run-options.ts'
import { toRunRequest } from './run-request.ts'

/** Groups are counted until so many others have come. */
const mostGroups = 10_000

/** Counts the attempts of groups, which rows name in a column and no request numbers. */
class RunGroups {
  readonly #options: RunRouteOptions
  /** By the value of the column, the one that came last at the end. */
  readonly #attempts = new Map<string, number>()

  constructor(options: RunRouteOptions) {
    this.#options = options
  }

  /** The group that a row is the next attempt of; undefined when it belongs to none. */
  next(row: Readonly<Record<string, unknown>>): RolloutGroup | undefined {
    const { groupColumn, groupSize: size } = this.#options
    const value = groupColumn === undefined ? undefined : row[groupColumn]
    if (typeof value !== 'string' && typeof value !== 'number') return undefined
    const name = String(value)
    const before = this.#attempts.get(name) ?? 0
    this.#attempts.delete(name)
    this.#attempts.set(name, before + 1)
    const [oldest] = this.#attempts.keys()
    if (this.#attempts.size > mostGroups && oldest !== undefined) this.#attempts.delete(oldest)
    if (size === undefined) return { id: name, attempt: before + 1 }
    return { id: `${name}/${Math.floor(before / size) + 1}`, attempt: (before % size) + 1, size }
  }
}

/** What rollouts of `POST /run` are run with. */
export interface RunRouteParts {
  readonly backend: Pick<ExecutionBackend, 'cancel'>
  readonly admission: Admission
  readonly requests: RolloutRequests
  readonly logger: Logger
}

/** The rollouts whose trainer waits on the connection that it asked for them on. */
export class Runs {
  readonly #options: RunRouteOptions
  readonly #parts: RunRouteParts
  /** Ids of what is running, by the instance that asked for it. */
  readonly #instances = new Map<string, Set<string>>()
  readonly #groups: RunGroups
  readonly #sessions = new RolloutMemory<Promise<string>>()
  readonly #droppedNames = new Set<string>()

  constructor(options: RunRouteOptions, parts: RunRouteParts) {
    this.#options = options
    this.#parts = parts
    this.#groups = new RunGroups(options)
  }

  /**
   * Runs a rollout to its end, and resolves with the body of the answer: JSON. A session that asks again
   * did not get its answer, and gets the one there is: what a second rollout says would be recorded
   * behind the first.
   *
   * @param gone - aborted when nobody waits for the answer any more: the rollout is cancelled
   * @throws HttpRefusal when it is not accepted
   */
  async run(body: RunRequestBody, trace: TraceHeaders, gone: AbortSignal): Promise<string> {
    const { base_url: url } = body
    if (!isSession(body)) return this.#run(body, trace, gone)
    const known = this.#sessions.get(url)
    if (known !== undefined) {
      this.#parts.logger.warn({ url }, 'a session asks again; answered with what it was answered')
      return known
    }
    const answer = this.#run(body, trace, gone)
    this.#sessions.begin(url, answer)
    try {
      await answer
      this.#sessions.end(url)
    } catch {
      this.#sessions.drop(url)
    }
    return answer
  }

  async #run(body: RunRequestBody, trace: TraceHeaders, gone: AbortSignal): Promise<string> {
    const { backend, admission, requests } = this.#parts
    const startedAt = performance.now()
    const { request: asked, row, dropped } = toRunRequest(body, trace, this.#options)
    this.#warnOfDropped(dropped)
    const { rolloutId } = asked
    const { promise: answer, resolve } = Promise.withResolvers<string>()
    // What is not known to the backend yet is cancelled when it begins.
    const cancelWhenGone = (): void => {
      if (gone.aborted) backend.cancel({ ids: [rolloutId] })
    }
    const run = async (request: RolloutRequest): Promise<void> => {
      const end = await requests.toEnd(request, { phaseChanged: cancelWhenGone })
      const seconds = (performance.now() - startedAt) / 1000
      const traced = body.trace === true
      if (end.kind === 'rewarded' && !traced) {
        warnOfStepRewards(rolloutId, end.samples.values(), this.#parts.logger)
      }
      resolve(toRunAnswer(end, { ...this.#options, seconds, traced }))
    }
    const forget = this.#note(body.session_server_instance_id, rolloutId)
    gone.addEventListener('abort', cancelWhenGone)
    try {
      await admission.admit({
        rolloutId,
        body,
        repeatable: false,
        kept: false,
        secrets: [body.api_key],
        prepare: () => {
          // Who was turned away before is no attempt.
          const request = { ...asked, group: this.#groups.next(row) }
          return { answer: '', ifInterrupted: () => [], run: async () => run(request) }
        },
      })
      cancelWhenGone()
      return await answer
    } finally {
      gone.removeEventListener('abort', cancelWhenGone)
      forget()
    }
  }

  /** Cancels what an instance has asked for; returns how many rollouts that were. */
  flush(instance: string): number {
    const ids = [...(this.#instances.get(instance) ?? [])]
    const dispositions = [...this.#parts.backend.cancel({ ids }).values()]
    const flushed = dispositions.filter((what) => what !== 'not_found').length
    this.#parts.logger.info({ instance, rollouts: flushed }, 'flush requested')
    return flushed
  }

  /** Returns what forgets it again. */
  #note(instance: string | null | undefined, rolloutId: string): () => void {
    if (instance === null || instance === undefined) return () => undefined
    const ids = this.#instances.get(instance) ?? new Set()
    this.#instances.set(instance, ids.add(rolloutId))
    return () => {
      ids.delete(rolloutId)
      if (ids.size === 0) this.#instances.delete(instance)
    }
  }

  /** Once for each name: every request of a trainer has the same. */
  #warnOfDropped(names: readonly string[]): void {
    const dropped = names.filter((name) => !this.#droppedNames.has(name))
    if (dropped.length === 0 || this.#droppedNames.size > mostNames) return
    for (const name of dropped) this.#droppedNames.add(name)
    const message = 'sampling parameters that chat completions do not have are left out'
    this.#parts.logger.warn({ names: dropped.slice(0, mostNames) }, message)
  }
}

const mostNames = 100

/** Whether the policy of a rollout is a session of a session server, which records that rollout alone. */
function isSession({ session_server_instance_id: instance, trace }: RunRequestBody): boolean {
  return trace !== true && instance !== null && instance !== undefined
}
