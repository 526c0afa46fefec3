import { z, type OpenAPIHono } from '@hono/zod-openapi'

import type { DescribedAnswer, ServerRoute } from './server-route.ts'

/** Describes the routes of a server in the registry of `app`. */
export function describeRoutes(
  { openAPIRegistry: registry }: OpenAPIHono,
  routes: readonly ServerRoute[],
): void {
  registry.registerComponent('securitySchemes', 'bearer', { type: 'http', scheme: 'bearer' })
  for (const { method, path, summary, open = false, body, answers } of routes) {
    const described = {
      ...answers,
      ...(open ? {} : { 401: { description: 'The key is missing or wrong' } }),
      ...(body === undefined ? {} : bodyAnswers),
    }
    const request = {
      ...(body === undefined ? {} : { body: { required: true, content: json(body.schema) } }),
      ...(path.includes('{') ? { params: parametersOf(path) } : {}),
    }
    registry.registerPath({
      method: method === 'GET' ? 'get' : 'post',
      path,
      summary,
      ...(open ? {} : { security: [{ bearer: [] }] }),
      ...(Object.keys(request).length === 0 ? {} : { request }),
      responses: Object.fromEntries(
        Object.entries(described).map(([status, answer]) => [status, responseOf(answer)]),
      ),
    })
  }
}

const refusalSchema = z.object({ detail: z.string() })

const bodyAnswers: Readonly<Record<number, DescribedAnswer>> = {
  413: { description: 'The body is too large' },
  422: {
    description: 'Not JSON in UTF-8, or not what the schema asks for',
    schema: z.object({
      detail: z.array(
        z.object({
          type: z.string(),
          loc: z.array(z.union([z.string(), z.int()])),
          msg: z.string(),
        }),
      ),
    }),
  },
}

type JsonContent = { 'application/json': { schema: z.ZodType } }

function responseOf({ description, schema = refusalSchema, mediaType }: DescribedAnswer): {
  description: string
  content: JsonContent | Record<string, { schema: z.ZodType }>
} {
  const content = mediaType === undefined ? json(schema) : { [mediaType]: { schema: z.string() } }
  return { description, content }
}

function json(schema: z.ZodType): JsonContent {
  return { 'application/json': { schema } }
}

function parametersOf(path: string): z.ZodObject {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  return z.object(Object.fromEntries(names.map((name) => [name, z.string()])))
}
