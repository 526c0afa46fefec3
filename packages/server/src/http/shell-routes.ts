import { z, type OpenAPIHono } from '@hono/zod-openapi'

import type { FileSystemWatch } from '../containment/blocked-threads.ts'
import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Outbox } from '../delivery/outbox.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'
import { HttpRefusal, jsonAnswer, type DescribedAnswer, type ServerRoute } from './server-route.ts'

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
    description: 'Not JSON in UTF-8, or not valid for the schema',
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

/** How long the file system of a healthy server may not answer. Seconds. */
const longestSilence = 3

/** The same routes; `/health` answers 503 when the file system does not answer. */
export function withFileSystem(
  routes: readonly ServerRoute[],
  watch: FileSystemWatch,
): ServerRoute[] {
  return routes.map((route) => {
    if (route.path !== '/health') return route
    const { answers } = route
    return {
      ...route,
      answers: { ...answers, 503: { description: 'The file system does not answer' } },
      handle(...request) {
        if (watch.silentSeconds < longestSilence) return route.handle(...request)
        throw new HttpRefusal(503, 'The file system does not answer')
      },
    }
  })
}

/** The route of the OpenAPI document. */
export function documentRoute(app: OpenAPIHono, title: string): ServerRoute {
  return {
    method: 'GET',
    path: '/openapi.json',
    summary: 'This document',
    answers: { 200: { description: 'OpenAPI 3.1', schema: z.looseObject({}) } },
    handle: () =>
      jsonAnswer(app.getOpenAPI31Document({ openapi: '3.1.0', info: { title, version: '1' } })),
  }
}

/** The route that Prometheus scrapes. */
export function metricsRoute(metrics: ServerMetrics): ServerRoute {
  return {
    method: 'GET',
    path: '/metrics',
    summary: 'Figures of the server, for Prometheus',
    answers: { 200: { description: 'Prometheus text format', mediaType: 'text/plain' } },
    handle: async () => ({
      status: 200,
      headers: { 'content-type': metrics.contentType },
      body: await metrics.text(),
    }),
  }
}

/** Registers the figures that servers of all protocols have. */
export function showShared(
  metrics: ServerMetrics,
  {
    delivery,
    outbox,
    inFlight,
  }: {
    readonly delivery: CallbackDelivery
    readonly outbox: Outbox | undefined
    /** How many rollouts are in flight. */
    readonly inFlight: () => number | Promise<number>
  },
): void {
  metrics.gauge(
    'osmosis_rollouts_in_flight',
    'Rollouts that were accepted and are not over, the delivery of their results included.',
    inFlight,
  )
  metrics.gauges(
    'osmosis_callbacks_undelivered',
    'Pending callbacks: sending, or gave_up for now and stored in the outbox.',
    'state',
    () => delivery.undeliveredByState,
  )
  metrics.gauge(
    'osmosis_callback_oldest_seconds',
    'Age of the oldest callback that is still being sent; 0 when there is none.',
    () => delivery.oldestSeconds,
  )
  if (outbox === undefined) return
  metrics.gauge(
    'osmosis_outbox_rollouts',
    'Rollouts in the outbox: accepted with pending callbacks, or with a result that can be fetched.',
    () => outbox.count,
  )
}
