import { functionTool, type StandardJsonSchema } from '@osmosis/agent-loop'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'

const add = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Add numbers',
    parameters: {
      type: 'object',
      properties: { numbers: { type: 'array', items: { type: 'number' }, minItems: 2 } },
      required: ['numbers'],
      additionalProperties: false,
    },
  },
}

/** A schema of a library whose schemas are functions. */
function functionSchema(schema: Record<string, unknown>): StandardJsonSchema {
  const jsonSchema = { input: () => schema }
  return Object.assign(() => true, { '~standard': { version: 1, vendor: 'test', jsonSchema } })
}

describe('accepting a rollout', () => {
  it('gives a loop each digit of a number in its row, as text beyond 2^53', async () => {
    const seen: unknown[] = []
    await using running = await startApp({
      loop: loopOf((ctx) => {
        seen.push(ctx.request.metadata, ctx.request.completionParams)
        return ctx.complete([])
      }),
    })
    const body = JSON.stringify(
      running.trainer.initBody({
        metadata: { ground_truth: 'n', near: 1.5 },
        completion_params: { seed: 'n' },
      }),
    )
    await post(`${running.url}/v1/rollout/init`, body.replaceAll('"n"', '12345678901234567890'))
    await running.trainer.results()
    expect(seen).toEqual([
      { ground_truth: '12345678901234567890', near: 1.5 },
      { seed: 12345678901234567000 },
    ])
  })

  it('answers 202 with the complete tools, and the keys that clients require', async () => {
    const tools = [
      add,
      functionTool({ name: 'now' }),
      functionTool({
        name: 'search',
        description: 'Search',
        parameters: z.object({ query: z.string().describe('what for'), limit: z.int().optional() }),
        strict: true,
      }),
      functionTool({
        name: 'sleep',
        parameters: functionSchema({ type: 'object', properties: { hours: { type: 'number' } } }),
      }),
    ]
    await using running = await startApp({ loop: loopOf(answerOnce, () => tools) })

    const answer = await running.init()
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(await statusAndBody(answer)).toStrictEqual({
      status: 202,
      body: {
        rollout_id: 'r1',
        tools: [
          { type: 'function', function: { ...add.function, strict: false } },
          {
            type: 'function',
            function: {
              name: 'now',
              description: '',
              parameters: { type: 'object', properties: {}, required: [] },
              strict: false,
            },
          },
          {
            type: 'function',
            function: {
              name: 'search',
              description: 'Search',
              parameters: {
                type: 'object',
                properties: {
                  query: { type: 'string', description: 'what for' },
                  limit: {
                    type: 'integer',
                    minimum: Number.MIN_SAFE_INTEGER,
                    maximum: Number.MAX_SAFE_INTEGER,
                  },
                },
                required: ['query'],
              },
              strict: true,
            },
          },
          {
            type: 'function',
            function: {
              name: 'sleep',
              description: '',
              parameters: {
                type: 'object',
                properties: { hours: { type: 'number' } },
                required: [],
              },
              strict: false,
            },
          },
        ],
      },
    })
  })

  it('gives the loop the request with its defaults, without the key of the trainer', async () => {
    const requests: unknown[] = []
    await using running = await startApp({
      loop: loopOf(
        (ctx) => {
          requests.push(ctx.request, ctx.tools)
          return ctx.complete([])
        },
        async (request) => {
          requests.push(request)
          return [add]
        },
      ),
    })
    await running.init({ api_key: 'trainer-key', metadata: { ground_truth: '4' }, more: 1 })
    await running.trainer.results()

    const request = {
      rolloutId: 'r1',
      serverUrl: running.trainer.url,
      messages: [{ role: 'user', content: 'hi' }],
      completionParams: {},
      toolServerUrl: null,
      maxTurns: 10,
      maxTokensTotal: 8192,
      metadata: { ground_truth: '4' },
      idempotencyKey: null,
    }
    expect(requests).toStrictEqual([
      request,
      request,
      [{ type: 'function', function: { ...add.function, strict: false } }],
    ])
  })

  it('accepts integers in the forms that Python accepts', async () => {
    const turns: number[] = []
    await using running = await startApp({
      loop: loopOf((ctx) => {
        turns.push(ctx.request.maxTurns)
        return ctx.complete([])
      }),
    })
    for (const [n, max_turns] of ['7', 7, true, -1].entries()) {
      await running.init({ rollout_id: `r${n}`, max_turns })
    }
    await running.trainer.results(4)
    expect(turns).toStrictEqual([7, 7, 1, -1])
  })
})

describe('refusing a rollout', () => {
  const withSetting = { settings: { maxMetadataSizeBytes: 1024 } }

  it.each<[string, Record<string, unknown>, object]>([
    ['no id', { rollout_id: undefined }, { type: 'missing', loc: ['body', 'rollout_id'] }],
    ['an empty id', { rollout_id: '' }, { loc: ['body', 'rollout_id'] }],
    ['a blank id', { rollout_id: ' \t\n\u001c\u0085' }, { loc: ['body', 'rollout_id'] }],
    ['an id of 257 characters', { rollout_id: '😀'.repeat(257) }, { loc: ['body', 'rollout_id'] }],
    ['an id that is a number', { rollout_id: 5 }, { type: 'type_error' }],
    ['an ftp URL', { server_url: 'ftp://host' }, { loc: ['body', 'server_url'] }],
    ['a URL without a host', { server_url: 'http://:80' }, { loc: ['body', 'server_url'] }],
    ['a URL with a space', { server_url: ' http://host' }, { loc: ['body', 'server_url'] }],
    ['a URL with credentials', { server_url: 'http://a:b@host' }, { loc: ['body', 'server_url'] }],
    ['a URL with a query', { server_url: 'http://host/?x=1' }, { loc: ['body', 'server_url'] }],
    ['a message that is text', { messages: [{}, 'hi'] }, { loc: ['body', 'messages', 1] }],
    [
      'no completion parameters',
      { completion_params: null },
      { loc: ['body', 'completion_params'] },
    ],
    ['half a turn', { max_turns: 7.5 }, { loc: ['body', 'max_turns'] }],
    ['metadata that is null', { metadata: null }, { loc: ['body', 'metadata'] }],
    [
      'metadata one byte over the limit',
      { metadata: { a: `${'é'.repeat(169)}xx` } },
      { loc: ['body', 'metadata'] },
    ],
  ])('answers 422 for %s, and repeats nothing of it', async (_, overrides, problem) => {
    await using running = await startApp(withSetting)
    const { status, body } = await statusAndBody(
      await running.init({ ...overrides, api_key: 'sk-secret' }),
    )

    expect(status).toBe(422)
    expect(body).toEqual({ detail: [expect.objectContaining(problem)] })
    expect(JSON.stringify(body)).not.toContain('sk-secret')
    expect(running.trainer.completed).toStrictEqual([])
  })

  it('accepts what is just within the limits', async () => {
    await using running = await startApp(withSetting)
    // {"a": "…"} are 9 bytes, and é is six.
    const metadata = { a: `${'é'.repeat(169)}x` }
    expect((await running.init({ rollout_id: '😀'.repeat(256), metadata })).status).toBe(202)
    await running.trainer.results()
  })

  it('answers 500 when the tools fail, runs nothing, and takes the same rollout afterwards', async () => {
    const returned: unknown[] = [null, [{ type: 'function' }], [add, add], [add]]
    let calls = 0
    await using running = await startApp({
      loop: loopOf(answerOnce, () => {
        calls += 1
        if (calls === 1) throw new Error('no tools today')
        return returned[calls - 2]
      }),
    })
    const answers = []
    for (let n = 0; n < 5; n += 1) answers.push(await statusAndBody(await running.init()))

    expect(answers.map(({ status }) => status)).toStrictEqual([500, 500, 500, 500, 202])
    expect(answers.slice(0, 4).map(({ body }) => body)).toStrictEqual([
      {
        detail: expect.stringMatching(
          /^\[GET_TOOLS_EXCEPTION\] getTools: getTools\(\) threw Error at \S+init\.test\.ts:\d+: no tools today$/,
        ) as unknown,
      },
      { detail: '[GET_TOOLS_RETURNS_NONE] getTools: getTools() must return an array, got null' },
      { detail: "[MISSING_FUNCTION] tools[0]: Tool must have a 'function' field" },
      {
        detail:
          "[DUPLICATE_FUNCTION_NAME] tools[1].function.name: Another tool has the name 'add', so a call would be ambiguous",
      },
    ])
    await running.app.drain()
    expect(running.trainer.completed).toHaveLength(1)
  })
})

describe('tools that never come', () => {
  it('are answered with 500 when trainers no longer wait, and the same rollout is taken afterwards', async () => {
    let calls = 0
    const loop = loopOf(answerOnce, () => {
      calls += 1
      return calls === 1 ? new Promise(() => {}) : [add]
    })
    await using running = await startApp({ loop, settings: { client: { timeoutSeconds: 1 } } })
    expect(await statusAndBody(await running.init())).toStrictEqual({
      status: 500,
      body: {
        detail:
          '[GET_TOOLS_TIMEOUT] getTools: getTools() did not return within the 1 s that trainers wait (client.timeoutSeconds)',
      },
    })
    expect((await running.init()).status).toBe(202)
    await running.trainer.results()
  })

  it('are not waited for by a server that ends', async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>()
    const loop = loopOf(answerOnce, () => {
      resolve()
      return new Promise(() => {})
    })
    await using running = await startApp({ loop })
    const answer = running.init()
    await asked
    await running.app.drain()
    expect((await answer).status).toBe(503)
  })
})

describe('the key of the server', () => {
  it.each([
    ['Bearer k-123456', 202],
    ['k-123456', 202],
    ['  k-123456  ', 202],
    ['Bearer k-654321', 401],
    ['Basic k-123456', 401],
    ['k-\u00e9', 401],
  ])('in the header %j is answered %i', async (authorization, status) => {
    await using running = await startApp({ apiKey: 'k-123456' })
    const answer = await running.init({}, { authorization })
    expect(answer.status).toBe(status)
    expect(await answer.json()).toStrictEqual(
      status === 202 ? { rollout_id: 'r1', tools: [] } : { detail: 'Invalid or missing API key' },
    )
    await running.app.drain()
  })

  it('is required from the platform, but not for the health check', async () => {
    await using running = await startApp({ apiKey: 'k-123456' })
    const status = async (path: string, headers = {}): Promise<number> =>
      (await fetch(`${running.url}${path}`, { headers })).status

    expect(await status('/health')).toBe(200)
    expect(await status('/platform/health')).toBe(401)
    expect(await status('/platform/health', { authorization: 'k-123456' })).toBe(200)
  })

  it('has no health route for the platform without a key', async () => {
    await using running = await startApp()
    expect(await statusAndBody(await fetch(`${running.url}/platform/health`))).toStrictEqual({
      status: 404,
      body: { detail: 'Not found' },
    })
  })
})

it('describes its routes in OpenAPI', async () => {
  await using running = await startApp()
  const document = (await (await fetch(`${running.url}/openapi.json`)).json()) as {
    info: unknown
    paths: Record<string, { post?: { requestBody: object } }>
  }
  expect(document.info).toStrictEqual({ title: 'Osmosis RolloutServer (test-loop)', version: '1' })
  expect(Object.keys(document.paths)).toStrictEqual([
    '/v1/rollout/init',
    '/health',
    '/platform/health',
    '/metrics',
    '/openapi.json',
  ])
  expect(document.paths['/v1/rollout/init']?.post?.requestBody).toMatchObject({
    content: {
      'application/json': {
        schema: { required: ['rollout_id', 'server_url', 'messages', 'completion_params'] },
      },
    },
  })
})
