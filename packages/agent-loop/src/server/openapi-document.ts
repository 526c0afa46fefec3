import { z, type OpenAPIHono } from '@hono/zod-openapi'
import { loopInitResponseSchema } from '@osmosis/core/wire'

import type { InitSchema } from './init-body.ts'

/** Path of the document itself. */
export const openApiPath = '/openapi.json'

const healthSchema = z.object({
  status: z.literal('healthy'),
  agent_loop: z.string(),
  active_rollouts: z.int(),
  queued_rollouts: z.int(),
  completed_rollouts: z.int(),
  undelivered: z.int(),
})

/** What both health routes answer. */
export type HealthBody = z.infer<typeof healthSchema>

/** Describes the routes of the server in the registry of `app`. */
export function describeRoutes(
  { openAPIRegistry: registry }: OpenAPIHono,
  initSchema: InitSchema,
): void {
  registry.registerComponent('securitySchemes', 'bearer', { type: 'http', scheme: 'bearer' })
  const security = [{ bearer: [] }]
  registry.registerPath({
    method: 'post',
    path: '/v1/rollout/init',
    summary: 'Accept one rollout; its result goes to /v1/rollout/completed of server_url',
    security,
    request: { body: { required: true, content: json(initSchema) } },
    responses: {
      202: answer('Accepted, now or before', loopInitResponseSchema),
      401: refusal('The key is missing or wrong'),
      413: refusal('The body is too large'),
      422: answer('Not JSON, or not what the schema asks for', problemsSchema),
      500: refusal('The agent loop has no usable tools; the same rollout may be sent again'),
      503: refusal('Shutting down, or full; Retry-After says when to ask again'),
    },
  })
  for (const path of ['/health', '/platform/health']) {
    registry.registerPath({
      method: 'get',
      path,
      summary: 'Whether the server is up, and how busy it is',
      ...(path === '/health' ? {} : { security }),
      responses: { 200: answer('Up', healthSchema) },
    })
  }
}

const problemsSchema = z.object({
  detail: z.array(
    z.object({ type: z.string(), loc: z.array(z.union([z.string(), z.int()])), msg: z.string() }),
  ),
})

type JsonContent = { 'application/json': { schema: z.ZodType } }

function json(schema: z.ZodType): JsonContent {
  return { 'application/json': { schema } }
}

function answer(
  description: string,
  schema: z.ZodType,
): { description: string; content: JsonContent } {
  return { description, content: json(schema) }
}

function refusal(description: string): ReturnType<typeof answer> {
  return answer(description, z.object({ detail: z.string() }))
}
