import { OpenAPIHono } from '@hono/zod-openapi'
import { errorMessage } from '@osmosis/core'
import type { Logger } from '@osmosis/server'
import { carriesKey, HttpRefusal, readJsonBody } from '@osmosis/server/parts'
import type { Handler } from 'hono'

import { describeRoutes, openApiPath, type HealthBody } from './openapi-document.ts'
import type { InitAdmission } from './init-admission.ts'
import type { InitSchema } from './init-body.ts'

/** What the routes ask and tell. */
export interface RoutedParts {
  readonly admission: InitAdmission
  readonly health: () => HealthBody
  readonly initSchema: InitSchema
  readonly apiKey: string | undefined
  /** Bytes. */
  readonly maxBodyBytes: number
  readonly logger: Logger
}

/** The HTTP face of an agent loop. */
export function createRoutes(parts: RoutedParts): OpenAPIHono {
  const { admission, health, apiKey, logger } = parts
  const app = new OpenAPIHono()
  const checkKey = (header: string | undefined): void => {
    if (apiKey === undefined || presents(header, apiKey)) return
    throw new HttpRefusal(401, 'Invalid or missing API key')
  }

  route(app, 'GET', '/health', (c) => c.json(health()))

  route(app, 'GET', '/platform/health', (c) => {
    if (apiKey === undefined) throw new HttpRefusal(404, 'Not found')
    checkKey(c.req.header('authorization'))
    return c.json(health())
  })

  route(app, 'POST', '/v1/rollout/init', async (c) => {
    checkKey(c.req.header('authorization'))
    const json = await readJsonBody(c.req.raw, parts.maxBodyBytes)
    return c.body(await admission.admit(json), 202, { 'content-type': 'application/json' })
  })

  describeRoutes(app, parts.initSchema)
  route(app, 'GET', openApiPath, (c) => {
    checkKey(c.req.header('authorization'))
    const info = { title: `Osmosis RolloutServer (${health().agent_loop})`, version: '1' }
    return c.json(app.getOpenAPI31Document({ openapi: '3.1.0', info }))
  })

  app.notFound(() => new HttpRefusal(404, 'Not Found').toResponse())
  app.onError((error) => {
    if (error instanceof HttpRefusal) return error.toResponse()
    logger.error({ error }, `request failed: ${errorMessage(error)}`)
    return new HttpRefusal(500, 'Internal Server Error').toResponse()
  })
  return app
}

/** Trainers send the key as a bearer, or alone. */
function presents(header: string | undefined, key: string): boolean {
  return carriesKey(header, key) || carriesKey(`Bearer ${header?.trim()}`, key)
}

function route(app: OpenAPIHono, method: 'GET' | 'POST', path: string, handler: Handler): void {
  app.on(method, path, handler)
  app.all(path, () => new HttpRefusal(405, 'Method Not Allowed', { allow: method }).toResponse())
}
