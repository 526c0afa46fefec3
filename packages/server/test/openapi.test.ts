import { expect, it } from 'vitest'

import { startServer, type RunningServerOptions } from './running-server.ts'

interface Document {
  openapi: string
  paths: Record<string, Record<string, { responses: Record<string, unknown>; security?: unknown }>>
}

async function describedBy(options?: RunningServerOptions): Promise<Document> {
  await using running = await startServer(options)
  return (await (await fetch(`${running.url}/openapi.json`)).json()) as Document
}

it('describes every route with every status, in OpenAPI 3.1', async () => {
  const { openapi, paths } = await describedBy()

  expect(openapi).toBe('3.1.0')
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses, security }]) => [
      `${method} ${path}`,
      Object.keys(responses).join(' '),
      security,
    ]),
  )
  const bearer = [{ bearer: [] }]
  expect(routes).toStrictEqual([
    ['post /rollout', '202 401 409 413 422 429 503', bearer],
    ['get /rollout/{rollout_id}/result', '200 401 403 404 405 422', bearer],
    ['get /rollout/{rollout_id}/status', '200 401', bearer],
    ['post /rollout/cancel', '200 401 413 422', bearer],
    ['post /drain', '200 401 413 422', bearer],
    ['get /health', '200 503', undefined],
    ['get /metrics', '200 401', bearer],
    ['get /openapi.json', '200 401', bearer],
  ])
})

it('describes the routes for waiting trainers if they are enabled', async () => {
  const { paths } = await describedBy({ run: true })
  const statuses = (path: string): string =>
    Object.keys(paths[path]?.['post']?.responses ?? {}).join(' ')
  expect(statuses('/run')).toBe('200 401 413 422 429 503')
  expect(statuses('/flush')).toBe('200 401 413 422')
  expect(paths['/run']?.['post']).toMatchObject({
    requestBody: {
      content: { 'application/json': { schema: { required: ['base_url', 'model'] } } },
    },
    responses: {
      200: {
        content: {
          'application/json': {
            schema: {
              required: ['exit_status', 'eval_report', 'agent_metrics'],
              properties: { trace: { type: 'array' }, reward: { type: 'number' } },
            },
          },
        },
      },
    },
  })
})

it('describes the request of a rollout as its schemas do', async () => {
  const { paths } = await describedBy()

  expect(paths['/rollout']?.['post']).toMatchObject({
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            anyOf: [
              {
                type: 'object',
                required: ['initial_messages', 'chat_completions_url', 'completion_callback_url'],
                properties: {
                  label: { type: ['string', 'null'] },
                  agent_timeout_sec: { type: ['number', 'null'] },
                  initial_messages: { type: 'array' },
                },
              },
              {
                type: 'object',
                required: ['rollout_id', 'initial_messages', 'chat_completions_url'],
                properties: { grade: { type: 'boolean', default: true } },
              },
            ],
          },
        },
      },
    },
  })
})

it('names the status of accepted rollouts', async () => {
  const { paths } = await describedBy({ admissionStatus: 200 })

  expect(Object.keys(paths['/rollout']?.['post']?.responses ?? {})).toContain('200')
})
