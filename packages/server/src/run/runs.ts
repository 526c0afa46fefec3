import { randomUUID } from 'node:crypto'

import {
  isOsmosisError,
  type ExecutionBackend,
  type RolloutGroup,
  type RolloutRequest,
} from '@osmosis/core'
import { RolloutMemory, type TraceHeaders } from '@osmosis/core/http'
import type { RunRequestBody } from '@osmosis/core/wire'

import { HttpRefusal } from '../http/http-refusal.ts'
import type { Logger } from '../logging/logger.ts'
import type { RolloutRequests } from '../rollout/rollout-requests.ts'
import type { Admission } from '../work/admission.ts'
import { rowOf, type TrainerRow } from './row-of.ts'
import { toRunAnswer, type RunAnswerRules } from './run-answer.ts'
import { toSamplingSettings } from './sampling-settings.ts'

/** How rollouts of `POST /run` are run. */
export interface RunOptions extends RunAnswerRules {
  /**
   * Column of the row that names its group: rollouts with the same value are attempts of one group, in
   * the order in which they come. Default: they belong to none.
   */
  groupColumn?: string | undefined
  /**
   * How many attempts a group has; after so many the next one begins, under an id of its own. Default:
   * not known, and all with the same value are one group.
   */
  groupSize?: number | undefined
  /** Seconds the workflow may take. Default: as long as the trainer waits. */
  agentTimeoutSeconds?: number | undefined
  /** Seconds the grader may take. Default: as long as the trainer waits. */
  graderTimeoutSeconds?: number | undefined
}

/** What rollouts of `POST /run` are run with. */
export interface RunParts {
  readonly backend: Pick<ExecutionBackend, 'cancel'>
  readonly admission: Admission
  readonly requests: RolloutRequests
  readonly logger: Logger
}

/** Groups are counted until so many others have come. */
const mostGroups = 10_000

/** The rollouts whose trainer waits on the connection that it asked for them on. */
export class Runs {
  readonly #options: RunOptions
  readonly #parts: RunParts
  /** Ids of what is running, by the instance that asked for it. */
  readonly #instances = new Map<string, Set<string>>()
  readonly #attempts = new Map<string, number>()
  readonly #sessions = new RolloutMemory<Promise<string>>()
  readonly #droppedNames = new Set<string>()

  constructor(options: RunOptions, parts: RunParts) {
    this.#options = options
    this.#parts = parts
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
    const { request: asked, row } = this.#toRequest(body, trace)
    const { rolloutId } = asked
    const { promise: answer, resolve } = Promise.withResolvers<string>()
    // What is not known to the backend yet is cancelled when it begins.
    const cancelWhenGone = (): void => {
      if (gone.aborted) backend.cancel({ ids: [rolloutId] })
    }
    const run = async (request: RolloutRequest): Promise<void> => {
      const end = await requests.toEnd(request, { phaseChanged: cancelWhenGone })
      const seconds = (performance.now() - startedAt) / 1000
      resolve(toRunAnswer(end, { ...this.#options, seconds, traced: body.trace === true }))
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
          const request = { ...asked, group: this.#groupOf(row) }
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

  #toRequest(
    body: RunRequestBody,
    traceHeaders: TraceHeaders,
  ): { request: RolloutRequest; row: Readonly<Record<string, unknown>> } {
    const {
      base_url: url,
      model,
      api_key: key,
      sampling_params: parameters,
      max_seq_len: _length,
      session_server_instance_id: _instance,
      session_server_id: _server,
      agent_kwargs: _agent,
      trace,
      ...row
    } = body
    const { messages, label, metadata } = readRow(row)
    const settings = toSamplingSettings(parameters)
    this.#warnOfDropped(settings.dropped)
    const { agentTimeoutSeconds = null, graderTimeoutSeconds = null } = this.#options
    const request: RolloutRequest = {
      rolloutId: randomUUID(),
      initialMessages: messages,
      label,
      metadata,
      chatCompletionsUrl: url,
      apiKey: key ?? undefined,
      agentTimeoutSeconds,
      graderTimeoutSeconds,
      grade: true,
      traceHeaders,
      wire: {
        model: model.replace(/^openai\//, ''),
        body: trace === true ? { ...settings.body, ...recorded } : settings.body,
        // Who asks for a trace has a policy that others ask as well: its 404 is about the model.
        ownRoute: trace !== true,
      },
    }
    return { request, row }
  }

  #groupOf(row: Readonly<Record<string, unknown>>): RolloutGroup | undefined {
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
    const message = 'sampling parameters that are no settings of chat completions are left out'
    this.#parts.logger.warn({ names: dropped.slice(0, mostNames) }, message)
  }
}

const mostNames = 100

/** What a model call has to ask for so that its answer can be trained. */
const recorded = { logprobs: true, return_token_ids: true }

/** Whether the policy of a rollout is a session of a session server, which records that rollout alone. */
function isSession({ session_server_instance_id: instance, trace }: RunRequestBody): boolean {
  return trace !== true && instance !== null && instance !== undefined
}

function readRow(row: Readonly<Record<string, unknown>>): TrainerRow {
  try {
    return rowOf(row)
  } catch (error) {
    const msg = isOsmosisError(error) ? error.message : 'is nested too deeply'
    throw new HttpRefusal(422, [{ type: 'value_error', loc: ['body'], msg }])
  }
}
