import { randomUUID } from 'node:crypto'

import type { ExecutionBackend, PromptMessage, RolloutRequest } from '@osmosis/core'
import { rolloutRequestSchema, type RolloutRequestBody } from '@osmosis/core/wire'

import { AdmittedRollouts } from './admitted-rollouts.ts'
import { bodyDigest } from './body-digest.ts'
import { checkBody } from './body-schema.ts'
import { HttpRefusal } from './http-refusal.ts'
import type { CallbackDelivery } from './callback-delivery.ts'
import type { Logger } from './logger.ts'
import type { CallbackTargets } from './rollout-callbacks.ts'
import type { RolloutRuns } from './rollout-runs.ts'
import type { SecretValues } from './secret-values.ts'

/** Seconds after which a caller that was turned away may ask again. */
const retryAfter = { 'retry-after': '5' }

/** What an admission needs to know and to hand rollouts to. */
export interface AdmissionParts {
  readonly backend: Pick<ExecutionBackend, 'hasCapacity'>
  readonly runs: RolloutRuns
  readonly delivery: Pick<CallbackDelivery, 'owes'>
  readonly secrets: SecretValues
  readonly logger: Logger
  readonly isDraining: () => boolean
}

/** Decides which rollouts are accepted, and starts those. */
export class RolloutAdmission {
  readonly #parts: AdmissionParts
  readonly #admitted = new AdmittedRollouts()

  constructor(parts: AdmissionParts) {
    this.#parts = parts
  }

  /**
   * Accepts a rollout: when this returns it has been scheduled, now or by an earlier request.
   * Nothing in here waits, so two requests cannot get past the same check together.
   *
   * @throws HttpRefusal 422, 503, 409 or 429
   */
  admit(json: unknown): void {
    const body = checkBody(rolloutRequestSchema, json, { initial_messages: isObject })
    const digest = digestOf(body)
    const { backend, delivery, isDraining } = this.#parts
    if (isDraining()) throw new HttpRefusal(503, 'rollout server is shutting down', retryAfter)

    const rolloutId = body.rollout_id ?? randomUUID()
    const known = this.#admitted.compare(rolloutId, digest)
    if (known === 'same') return
    if (known === 'different') {
      throw new HttpRefusal(409, 'rollout_id is already in use by a rollout with another body')
    }
    if (delivery.owes(rolloutId)) {
      const detail = 'results of this rollout from before a restart are still being delivered'
      throw new HttpRefusal(503, detail, retryAfter)
    }
    if (!backend.hasCapacity()) {
      throw new HttpRefusal(429, 'rollout queue is full; retry later', retryAfter)
    }
    this.#start(rolloutId, body, digest)
  }

  #start(rolloutId: string, body: RolloutRequestBody, digest: string): void {
    const { runs, secrets, logger } = this.#parts
    const forgetSecrets = secrets.add(body.controller_api_key, body.llm_api_key)
    logger.info({ rollout_id: rolloutId }, 'rollout accepted')
    this.#admitted.started(rolloutId, digest)
    runs.start(toRolloutRequest(rolloutId, body), toTargets(rolloutId, body), () => {
      this.#admitted.ended(rolloutId)
      forgetSecrets()
      logger.info({ rollout_id: rolloutId }, 'rollout ended')
    })
  }
}

function toRolloutRequest(rolloutId: string, body: RolloutRequestBody): RolloutRequest {
  return {
    rolloutId,
    initialMessages: body.initial_messages as PromptMessage[],
    label: body.label ?? null,
    metadata: body.metadata ?? null,
    chatCompletionsUrl: body.chat_completions_url,
    apiKey: body.llm_api_key ?? body.controller_api_key ?? undefined,
    agentTimeoutSeconds: body.agent_timeout_sec ?? null,
    graderTimeoutSeconds: body.grader_timeout_sec ?? null,
    grade: typeof body.grader_callback_url === 'string',
  }
}

function toTargets(rolloutId: string, body: RolloutRequestBody): CallbackTargets {
  return {
    rolloutId,
    completionUrl: body.completion_callback_url,
    graderUrl: body.grader_callback_url ?? null,
    apiKey: body.controller_api_key ?? null,
  }
}

function digestOf(body: RolloutRequestBody): string {
  try {
    return bodyDigest(body)
  } catch {
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
