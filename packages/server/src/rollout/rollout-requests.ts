import { randomUUID } from 'node:crypto'

import type { PromptMessage } from '@osmosis/core'
import type { EndpointNames, TraceHeaders } from '@osmosis/core/http'
import {
  reportAfter,
  type ExecutionBackend,
  type RolloutEvent,
  type RolloutReport,
  type RolloutRequest,
  type RolloutStage,
} from '@osmosis/protocol'
import type {
  LeasedRolloutAcceptedBody,
  LeasedRolloutRequestBody,
  RolloutRequestBody,
} from '@osmosis/protocol/wire'

import { outcomeOf, type ExecutionOutcome } from '../execution/rollout-end.ts'
import { executeThrough, settled } from '../execution/rollout-stages.ts'
import type { AdmissionRequest } from '../http/admission.ts'
import type { ServerServices } from '../http/server-shell.ts'
import type { LeaseRegistry } from '../leases/lease-registry.ts'
import { digestOfToken, newLeaseToken } from '../leases/leased-rollout.ts'
import type { OwnershipLog } from '../work/ownership-log.ts'
import type { Leases } from './leases.ts'
import type { RolloutBody } from './ports/rollout-ports.ts'
import { deliverCallbacks, ifInterrupted, type CallbackTargets } from './rollout-callbacks.ts'
import { counted, logged, owned } from './server-stages.ts'
import type { RolloutTrajectory, TrajectoryFiles } from './trajectory-files.ts'

/** What runs requested rollouts. */
interface RolloutParts {
  readonly backend: ExecutionBackend
  readonly files: TrajectoryFiles
  readonly leases: Leases
  /** Undefined: the ownership of rollouts is not reported. */
  readonly ownership: OwnershipLog | undefined
  readonly services: ServerServices
}

/** Turns the bodies of `POST /rollout` into rollouts that can be admitted and run. */
export class RolloutRequests {
  readonly #parts: RolloutParts
  readonly #stages: (trajectory: RolloutTrajectory) => readonly RolloutStage[]

  constructor(parts: RolloutParts) {
    this.#parts = parts
    const { ownership, services } = parts
    // Made once, because each is a generator function.
    const [count, log] = [counted(services.metrics), logged(services)]
    const own = ownership === undefined ? [] : [owned(ownership)]
    // What a server does with each rollout, in this order.
    this.#stages = ({ saved }) => [settled, saved, count, ...own, log]
  }

  /** With callbacks: a repeated request gets the first answer. */
  withCallbacks(body: RolloutRequestBody, traceHeaders: TraceHeaders): AdmissionRequest {
    const rolloutId = body.rollout_id ?? randomUUID()
    const request = toRolloutRequest({ kind: 'callbacks', body }, rolloutId, traceHeaders)
    return {
      rolloutId,
      body,
      secrets: [body.controller_api_key, body.llm_api_key],
      prepare: () => {
        const trajectory = this.#parts.files.begin(request, body.extra_fields ?? null)
        const onAcknowledged = (text: string): void => trajectory.acknowledged(text)
        const targets = { ...toTargets(rolloutId, body), onAcknowledged }
        return {
          answer: '{}',
          ifInterrupted: () => ifInterrupted(targets),
          run: (record) => {
            const { services } = this.#parts
            return this.#run(request, trajectory, async (events) =>
              deliverCallbacks({ targets, services, record }, events, traceHeaders),
            )
          },
        }
      },
    }
  }

  /** With a lease: its result is fetched, and it cannot be repeated. */
  withLease(body: LeasedRolloutRequestBody, traceHeaders: TraceHeaders): AdmissionRequest {
    const { files, leases } = this.#parts
    const { registry } = leases
    const { rollout_id: rolloutId, llm_api_key: apiKey, grade } = body
    const request = toRolloutRequest({ kind: 'lease', body }, rolloutId, traceHeaders)
    return {
      rolloutId,
      body,
      repeatable: false,
      hasRoom: () => registry.makeRoom(),
      secrets: [apiKey],
      prepare: () => {
        const trajectory = files.begin(request, body.extra_fields ?? null)
        const save = (): Promise<void> => trajectory.write()
        const { answer, tokenDigest } = newLease(rolloutId, registry)
        return {
          answer,
          ifInterrupted: () => [],
          tokenDigest,
          run: (record) => {
            const identity = { rolloutId, tokenDigest, record }
            return this.#run(request, trajectory, async (events) =>
              leases.deliver(identity, events, { graded: grade, save }),
            )
          },
        }
      },
    }
  }

  /**
   * Runs a rollout to its end, for a caller that waits. Never rejects. Resolves when nothing of the rollout is left, which
   * may be seconds after `onOutcome`: a work folder is deleted when user code that was ended notices it.
   *
   * @param onEvent - called with each event
   * @param onOutcome - called once, when the documents of the rollout are written
   */
  async toEnd(
    request: RolloutRequest,
    onEvent: () => void,
    onOutcome: (outcome: ExecutionOutcome) => void,
  ): Promise<void> {
    const graded = { ...request, grade: true }
    const trajectory = this.#parts.files.begin(graded, null)
    await this.#run(graded, trajectory, async (events) => {
      let report: RolloutReport | undefined
      for await (const event of events) {
        report = reportAfter(report, event)
        onEvent()
        if (report === undefined || !isLast(event)) continue
        await trajectory.write()
        onOutcome(outcomeOf(report))
      }
    })
  }

  /** Executes a rollout, and delivers its events: the result of `deliver`. */
  async #run<T>(
    request: RolloutRequest,
    trajectory: RolloutTrajectory,
    deliver: (events: AsyncIterable<RolloutEvent>) => Promise<T>,
  ): Promise<T> {
    try {
      return await deliver(executeThrough(this.#stages(trajectory), this.#parts.backend, request))
    } finally {
      await trajectory.write()
    }
  }
}

/** Whether an event is the last one of a rollout that is graded. */
function isLast(event: RolloutEvent): boolean {
  return event.type === 'graded' || (event.type === 'workflow' && event.outcome.failure !== null)
}

/** A new lease: the answer to its caller, and the digest of its token. */
export function newLease(
  rolloutId: string,
  { waitSeconds, leaseSeconds }: Pick<LeaseRegistry, 'waitSeconds' | 'leaseSeconds'>,
): { answer: string; tokenDigest: string } {
  const token = newLeaseToken()
  const answer: LeasedRolloutAcceptedBody = {
    rollout_id: rolloutId,
    status: 'queued',
    polling_lease_token: token,
    result_wait_timeout_sec: waitSeconds,
    polling_lease_timeout_sec: leaseSeconds,
  }
  return { answer: JSON.stringify(answer), tokenDigest: digestOfToken(token) }
}

/** The fields of a body. Rollouts share the objects. */
const ownNames: EndpointNames = { url: 'chat_completions_url', key: 'llm_api_key' }
const controllerNames: EndpointNames = { ...ownNames, key: 'controller_api_key' }

/** The rollout that a body requests. */
export function toRolloutRequest(
  requested: RolloutBody,
  rolloutId: string,
  traceHeaders: TraceHeaders,
): RolloutRequest {
  const { body } = requested
  const key = body.llm_api_key ?? undefined
  const otherKey = requested.kind === 'lease' ? null : requested.body.controller_api_key
  return {
    rolloutId,
    initialMessages: body.initial_messages as PromptMessage[],
    label: body.label ?? null,
    metadata: body.metadata ?? null,
    chatCompletionsUrl: body.chat_completions_url,
    agentTimeoutSeconds: body.agent_timeout_sec ?? null,
    graderTimeoutSeconds: body.grader_timeout_sec ?? null,
    apiKey: key ?? otherKey ?? undefined,
    endpointNames: key === undefined && otherKey ? controllerNames : ownNames,
    grade:
      requested.kind === 'lease'
        ? requested.body.grade
        : (requested.body.grader_callback_url ?? null) !== null,
    traceHeaders,
    group: body.group ? { ...body.group, size: body.group.size ?? undefined } : undefined,
  }
}

/** The callback targets that a body names. */
export function toTargets(rolloutId: string, body: RolloutRequestBody): CallbackTargets {
  return {
    rolloutId,
    completionUrl: body.completion_callback_url,
    graderUrl: body.grader_callback_url ?? null,
    apiKey: body.controller_api_key ?? null,
  }
}
