import { randomUUID } from 'node:crypto'

import {
  errorMessage,
  type ExecutionBackend,
  type PromptMessage,
  type RolloutRequest,
  type RolloutSelector,
} from '@osmosis/core'
import {
  cancelRequestSchema,
  cancelResponseSchema,
  healthResponseSchema,
  rolloutRequestSchema,
  statusResponseSchema,
  type CancelDisposition,
  type CancelRequestBody,
  type HealthResponseBody,
  type RolloutRequestBody,
  type StatusResponseBody,
} from '@osmosis/core/wire'
import { z } from 'zod'

import { isJsonObject, type ServerRoute } from '../http/server-route.ts'
import type { ServerServices } from '../http/server-shell.ts'
import { Admission } from '../work/admission.ts'
import { RolloutCallbacks, type CallbackTargets } from './rollout-callbacks.ts'

/** What the rollout protocol is served with. */
export interface RolloutProtocolOptions {
  /** Executes the rollouts; the caller made it, and the server shuts it down when it drains. */
  backend: ExecutionBackend
  /** Status of an accepted rollout: 202 (default), or 200 for older controllers. */
  admissionStatus?: 200 | 202 | undefined
  /** Part of the answer of `/health`, so that a controller notices a restart; default: left out. */
  instanceId?: string | undefined
}

/** The routes of the rollout protocol: each translates between the wire and one part behind it. */
export function rolloutRoutes(
  { backend, admissionStatus = 202, instanceId }: RolloutProtocolOptions,
  services: ServerServices,
): ServerRoute[] {
  const { delivery, secrets, logger } = services
  const admission = new Admission(services, {
    isFull: () => !backend.hasCapacity(),
    fullStatus: 429,
    otherBody: 'refuse',
  })

  /** Hands a rollout to the backend; resolves when its last callback has been seen to. */
  async function run(request: RolloutRequest, targets: CallbackTargets): Promise<void> {
    const callbacks = new RolloutCallbacks(targets, services)
    try {
      await backend.execute(request, callbacks)
      if (callbacks.complete) return
      await callbacks.backendEnded(new Error('The backend ended the rollout without a result.'))
    } catch (error) {
      const line = { rollout_id: request.rolloutId, error }
      logger.error(line, `backend failed: ${errorMessage(error)}`)
      await callbacks.backendEnded(error)
    }
  }

  const accept: ServerRoute<RolloutRequestBody> = {
    method: 'POST',
    path: '/rollout',
    summary: 'Accept one rollout; its results arrive at the callback URLs',
    body: { schema: rolloutRequestSchema, lists: { initial_messages: isJsonObject } },
    answers: {
      [admissionStatus]: { description: 'Accepted, now or before', schema: z.object({}) },
      409: { description: 'The rollout_id is in use with another body' },
      429: { description: 'The queue is full; Retry-After says when to ask again' },
      503: { description: 'Shutting down; Retry-After says when to ask again' },
    },
    async handle(c, body) {
      const rolloutId = body.rollout_id ?? randomUUID()
      const answer = await admission.admit({
        rolloutId,
        body,
        secrets: [body.controller_api_key, body.llm_api_key],
        prepare: () => ({
          answer: '{}',
          run: () => run(toRolloutRequest(rolloutId, body), toTargets(rolloutId, body)),
        }),
      })
      return c.body(answer, admissionStatus, { 'content-type': 'application/json' })
    },
  }

  const status: ServerRoute = {
    method: 'GET',
    path: '/rollout/{rollout_id}/status',
    summary: 'Where a rollout stands',
    answers: { 200: { description: 'Unknown rollouts included', schema: statusResponseSchema } },
    handle(c) {
      const rolloutId = c.req.param('rollout_id') ?? ''
      const { status: phase, reward, errorMessage: text } = backend.status(rolloutId)
      return c.json({
        rollout_id: rolloutId,
        status: phase,
        reward,
        err_message: text === null ? null : secrets.redact(text),
      } satisfies StatusResponseBody)
    },
  }

  const cancel: ServerRoute<CancelRequestBody> = {
    method: 'POST',
    path: '/rollout/cancel',
    summary: 'Cancel rollouts by ids, by prefix, or all of them',
    body: { schema: cancelRequestSchema, lists: { ids: (id) => typeof id === 'string' } },
    answers: { 200: { description: 'What became of each', schema: cancelResponseSchema } },
    handle(c, body) {
      const dispositions = backend.cancel(toSelector(body))
      logger.info({ rollouts: dispositions.size }, 'cancel requested')
      return c.json({
        dispositions: Object.fromEntries(dispositions) as Record<string, CancelDisposition>,
      })
    },
  }

  const health: ServerRoute = {
    method: 'GET',
    path: '/health',
    summary: 'Whether the server is up, and how busy it is',
    open: true,
    answers: { 200: { description: 'Up', schema: healthResponseSchema } },
    handle(c) {
      const { maxConcurrent, queued, running } = backend.load()
      return c.json({
        status: 'ok',
        concurrency: { max_concurrent: maxConcurrent, queued, running },
        undelivered: delivery.undelivered,
        ...(instanceId ? { instance_id: instanceId } : {}),
      } satisfies HealthResponseBody)
    },
  }

  return [accept, status, cancel, health]
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

/** The selector in a cancel request, which its schema has found to hold exactly one. */
function toSelector({ ids, prefix }: CancelRequestBody): RolloutSelector {
  if (ids) return { ids }
  return prefix ? { prefix } : { all: true }
}
