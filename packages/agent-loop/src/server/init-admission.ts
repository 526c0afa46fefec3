import type { ConcurrencyLimiter } from '@osmosis/core'
import type { LoopInitRequestBody, LoopInitResponseBody } from '@osmosis/core/wire'
import type { Logger } from '@osmosis/server'
import {
  bodyDigest,
  checkBody,
  HttpRefusal,
  type CallbackDelivery,
  type SecretValues,
} from '@osmosis/server/parts'

import type { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import { loadTools } from '../validate-agent-loop.ts'
import { formatIssue, type ValidationIssue } from '../validation-issue.ts'
import { initBodySchema, toRolloutRequest, type InitSchema } from './init-body.ts'
import { recordKey, type RolloutRecords } from './rollout-records.ts'
import type { RolloutRuns } from './rollout-runs.ts'

/** Seconds after which a trainer that was turned away may ask again. */
const retryAfter = { 'retry-after': '5' }

/** What an admission needs to know and to hand rollouts to. */
export interface InitAdmissionParts {
  readonly loop: RolloutAgentLoop
  readonly records: RolloutRecords
  readonly runs: RolloutRuns
  readonly delivery: Pick<CallbackDelivery, 'owes'>
  readonly limiter: ConcurrencyLimiter
  /** Null: any number may wait for a slot. */
  readonly maxQueued: number | null
  readonly maxMetadataBytes: number
  readonly secrets: SecretValues
  readonly logger: Logger
  readonly isDraining: () => boolean
}

/** Decides which rollouts are accepted, and starts those, each once. */
export class InitAdmission {
  readonly #parts: InitAdmissionParts
  readonly #schema: InitSchema

  constructor(parts: InitAdmissionParts) {
    this.#parts = parts
    this.#schema = initBodySchema(parts.maxMetadataBytes)
  }

  /**
   * Accepts a rollout and resolves with the body of the answer. Requests for one rollout, however
   * many come at the same time, get one answer and lead to one run.
   *
   * @throws HttpRefusal 422, 503 or 500
   */
  async admit(json: unknown): Promise<string> {
    const body = checkBody(this.#schema, json, {
      messages: (message) =>
        typeof message === 'object' && message !== null && !Array.isArray(message),
    })
    const digest = digestOf(body)
    const { records, delivery, limiter, maxQueued, logger } = this.#parts
    this.#refuseWhenDraining()
    const key = recordKey(body.rollout_id, body.idempotency_key || null)
    const known = records.find(key)
    if (known !== undefined) {
      if (known.digest !== digest) {
        const line = { rollout_id: body.rollout_id, idempotency_key: body.idempotency_key ?? null }
        logger.warn(line, 'a repeated init has another body; the first one counts')
      }
      return known.accepted
    }
    if (delivery.owes(body.rollout_id)) {
      const detail = 'the result of this rollout from before a restart is still being delivered'
      throw new HttpRefusal(503, detail, retryAfter)
    }
    if (maxQueued !== null && limiter.queued >= maxQueued) {
      throw new HttpRefusal(503, 'rollout queue is full; retry later', retryAfter)
    }
    const accepted = this.#start(key, body)
    records.begin(key, { digest, accepted })
    return accepted
  }

  // Waits for the tools before it does anything, so the record is there when it is dropped.
  async #start(key: string, body: LoopInitRequestBody): Promise<string> {
    const { loop, records, runs, secrets, logger } = this.#parts
    const apiKey = body.api_key || null
    const forgetSecrets = secrets.add(apiKey)
    const request = toRolloutRequest(body)
    const { rolloutId } = request
    try {
      const { tools, issues } = await loadTools(loop, request)
      this.#refuseTools(rolloutId, issues)
      this.#refuseWhenDraining()
      logger.info({ rollout_id: rolloutId }, 'rollout accepted')
      runs.start({ request, tools, apiKey }, () => {
        records.end(key)
        forgetSecrets()
        logger.info({ rollout_id: rolloutId }, 'rollout ended')
      })
      return JSON.stringify({ rollout_id: rolloutId, tools } satisfies LoopInitResponseBody)
    } catch (error) {
      records.drop(key)
      forgetSecrets()
      throw error
    }
  }

  #refuseTools(rolloutId: string, issues: readonly ValidationIssue[]): void {
    const errors = issues.filter(({ severity }) => severity === 'error')
    if (errors.length === 0) return
    const detail = this.#parts.secrets.redact(errors.map(formatIssue).join('; '))
    this.#parts.logger.error({ rollout_id: rolloutId }, `no tools for a rollout: ${detail}`)
    throw new HttpRefusal(500, detail)
  }

  #refuseWhenDraining(): void {
    if (!this.#parts.isDraining()) return
    throw new HttpRefusal(503, 'rollout server is shutting down', retryAfter)
  }
}

function digestOf(body: LoopInitRequestBody): string {
  try {
    return bodyDigest(body)
  } catch {
    throw new HttpRefusal(422, [
      { type: 'value_error', loc: ['body'], msg: 'is nested too deeply' },
    ])
  }
}
