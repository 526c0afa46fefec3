import { OpenAPIHono } from '@hono/zod-openapi'
import { errorMessage, type ExecutionBackend } from '@osmosis/core'
import {
  cancelRequestSchema,
  type CancelDisposition,
  type HealthResponseBody,
  type StatusResponseBody,
} from '@osmosis/core/wire'
import type { Handler, MiddlewareHandler } from 'hono'

import { carriesKey } from './bearer-key.ts'
import { checkBody } from './body-schema.ts'
import { HttpRefusal } from './http-refusal.ts'
import type { Logger } from './logger.ts'
import { describeRoutes, openApiPath } from './openapi-document.ts'
import { readJsonBody } from './request-body.ts'
import type { RolloutAdmission } from './rollout-admission.ts'
import type { SecretValues } from './secret-values.ts'
import { toSelector } from './cancel-selector.ts'

/** What the routes ask and tell. */
export interface RoutedParts {
  readonly backend: ExecutionBackend
  readonly admission: RolloutAdmission
  readonly secrets: SecretValues
  readonly logger: Logger
  readonly undelivered: () => number
  readonly apiKey: string | undefined
  readonly admissionStatus: 200 | 202
  /** Bytes. */
  readonly maxBodyBytes: number
  readonly instanceId: string | undefined
}

/** The HTTP face of the server: each route translates between the wire and one part behind it. */
export function createRoutes(parts: RoutedParts): OpenAPIHono {
  const { backend, admission, secrets, logger, maxBodyBytes, admissionStatus } = parts
  const app = new OpenAPIHono()

  route(app, 'GET', '/health', (c) => {
    const { maxConcurrent, queued, running } = backend.load()
    return c.json({
      status: 'ok',
      concurrency: { max_concurrent: maxConcurrent, queued, running },
      undelivered: parts.undelivered(),
      ...(parts.instanceId ? { instance_id: parts.instanceId } : {}),
    } satisfies HealthResponseBody)
  })

  if (parts.apiKey !== undefined) app.use(requireKey(parts.apiKey))

  route(app, 'POST', '/rollout', async (c) => {
    admission.admit(await readJsonBody(c.req.raw, maxBodyBytes))
    return c.json({}, admissionStatus)
  })

  route(app, 'GET', '/rollout/:id/status', (c) => {
    const rolloutId = c.req.param('id') ?? ''
    const { status, reward, errorMessage: text } = backend.status(rolloutId)
    return c.json({
      rollout_id: rolloutId,
      status,
      reward,
      err_message: text === null ? null : secrets.redact(text),
    } satisfies StatusResponseBody)
  })

  route(app, 'POST', '/rollout/cancel', async (c) => {
    const json = await readJsonBody(c.req.raw, maxBodyBytes)
    const body = checkBody(cancelRequestSchema, json, { ids: (id) => typeof id === 'string' })
    const dispositions = backend.cancel(toSelector(body))
    logger.info({ rollouts: dispositions.size }, 'cancel requested')
    return c.json({
      dispositions: Object.fromEntries(dispositions) as Record<string, CancelDisposition>,
    })
  })

  describeRoutes(app, admissionStatus)
  route(app, 'GET', openApiPath, (c) =>
    c.json(
      app.getOpenAPI31Document({
        openapi: '3.1.0',
        info: { title: 'Osmosis rollout server', version: '1' },
      }),
    ),
  )

  app.notFound(() => new HttpRefusal(404, 'Not Found').toResponse())
  app.onError((error) => {
    if (error instanceof HttpRefusal) return error.toResponse()
    logger.error({ error }, `request failed: ${errorMessage(error)}`)
    return new HttpRefusal(500, 'Internal Server Error').toResponse()
  })
  return app
}

function route(app: OpenAPIHono, method: 'GET' | 'POST', path: string, handler: Handler): void {
  app.on(method, path, handler)
  app.all(path, () => new HttpRefusal(405, 'Method Not Allowed', { allow: method }).toResponse())
}

function requireKey(key: string): MiddlewareHandler {
  return async (c, next) => {
    if (!carriesKey(c.req.header('authorization'), key)) {
      throw new HttpRefusal(401, 'Unauthorized', { 'www-authenticate': 'Bearer' })
    }
    await next()
  }
}
