import { z, type OpenAPIHono } from '@hono/zod-openapi'
import {
  cancelRequestSchema,
  cancelResponseSchema,
  healthResponseSchema,
  rolloutRequestSchema,
  statusResponseSchema,
} from '@osmosis/core/wire'

/** Path of the document itself. */
export const openApiPath = '/openapi.json'

/** Describes the routes of the server in `registry`. */
export function describeRoutes(
  { openAPIRegistry: registry }: OpenAPIHono,
  admissionStatus: 200 | 202,
): void {
  registry.registerComponent('securitySchemes', 'bearer', { type: 'http', scheme: 'bearer' })
  const security = [{ bearer: [] }]

  registry.registerPath({
    method: 'post',
    path: '/rollout',
    summary: 'Accept one rollout; its results arrive at the callback URLs',
    security,
    request: { body: { required: true, content: json(rolloutRequestSchema) } },
    responses: {
      [admissionStatus]: answer('Accepted, now or before', z.object({})),
      401: unauthorized,
      409: refusal('The rollout_id is in use with another body'),
      413: refusal('The body is too large'),
      422: invalid,
      429: refusal('The queue is full; Retry-After says when to ask again'),
      503: refusal('Shutting down; Retry-After says when to ask again'),
    },
  })
  registry.registerPath({
    method: 'get',
    path: '/rollout/{rollout_id}/status',
    summary: 'Where a rollout stands',
    security,
    request: { params: z.object({ rollout_id: z.string() }) },
    responses: {
      200: answer('Unknown rollouts included', statusResponseSchema),
      401: unauthorized,
    },
  })
  registry.registerPath({
    method: 'post',
    path: '/rollout/cancel',
    summary: 'Cancel rollouts by ids, by prefix, or all of them',
    security,
    request: { body: { required: true, content: json(cancelRequestSchema) } },
    responses: {
      200: answer('What became of each', cancelResponseSchema),
      401: unauthorized,
      413: refusal('The body is too large'),
      422: invalid,
    },
  })
  registry.registerPath({
    method: 'get',
    path: '/health',
    summary: 'Whether the server is up, and how busy it is',
    responses: { 200: answer('Up', healthResponseSchema) },
  })
  registry.registerPath({
    method: 'get',
    path: openApiPath,
    summary: 'This document',
    security,
    responses: { 200: answer('OpenAPI 3.1', z.looseObject({})), 401: unauthorized },
  })
}

type JsonContent = { 'application/json': { schema: z.ZodType } }
type Answer = { description: string; content: JsonContent }

function json(schema: z.ZodType): JsonContent {
  return { 'application/json': { schema } }
}

function answer(description: string, schema: z.ZodType): Answer {
  return { description, content: json(schema) }
}

function refusal(description: string): Answer {
  return answer(description, z.object({ detail: z.string() }))
}

const unauthorized = refusal('The bearer is missing or wrong')

const invalid = answer(
  'Not JSON, or not what the schema asks for',
  z.object({
    detail: z.array(
      z.object({
        type: z.string(),
        loc: z.array(z.union([z.string(), z.int()])),
        msg: z.string(),
      }),
    ),
  }),
)
