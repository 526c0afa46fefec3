import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import { describe, expect, it, vi } from 'vitest'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { askPolicy, startServer, workflowOf } from './running-server.ts'

const key = 'server-key-0123456789'
const bearer = { authorization: `Bearer ${key}` }
const unauthorized = { status: 401, body: { detail: 'Unauthorized' } }
const notJson = {
  status: 422,
  body: { detail: [{ type: 'json_invalid', loc: ['body'], msg: 'JSON decode error' }] },
}

/** A workflow that ends when the test says so. */
function gate(): { open: () => void; workflow: ReturnType<typeof workflowOf> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return {
    open: resolve,
    workflow: workflowOf(async (ctx) => {
      await askPolicy(ctx)
      await promise
    }),
  }
}

describe('accepting a rollout', () => {
  it('answers 202 and an empty object', async () => {
    await using running = await startServer()

    expect(await statusAndBody(await running.post())).toStrictEqual({ status: 202, body: {} })
  })

  it('answers 200 if configured for older controllers', async () => {
    await using running = await startServer({ admissionStatus: 200 })

    expect(await statusAndBody(await running.post())).toStrictEqual({ status: 200, body: {} })
    expect(await statusAndBody(await running.post())).toStrictEqual({ status: 200, body: {} })
  })

  it('runs every body without a rollout_id as a rollout of its own', async () => {
    await using running = await startServer()

    await running.post({ rollout_id: undefined })
    await running.post({ rollout_id: null })
    await running.controller.until(() => running.controller.callbacks.length === 4)

    const ids = running.controller.callbacks.map(
      ({ body }) => (body as { rollout_id: string }).rollout_id,
    )
    expect(new Set(ids).size).toBe(2)
  })

  it('tolerates a missing or wrong content type and unknown keys', async () => {
    await using running = await startServer()
    const body = running.controller.rolloutBody({ surprise: true })

    const response = await post(`${running.url}/rollout`, body, {
      'content-type': 'text/plain',
    })

    expect(await statusAndBody(response)).toStrictEqual({ status: 202, body: {} })
  })

  it('runs the rollout although its answer cannot be sent', async () => {
    await using running = await startServer()
    const { controller, url } = running
    const json = JSON.stringify(controller.rolloutBody())

    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.end(
      `POST /rollout HTTP/1.1\r\nhost: x\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
      () => socket.destroy(),
    )

    expect(await controller.bodies()).toHaveLength(2)
  })
})

describe('a client that disconnects', () => {
  it('in the middle of its body leaves no trace', async () => {
    await using running = await startServer()
    const { url, log, controller } = running
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(
      'POST /rollout HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"rollout_id"',
      () => socket.destroy(),
    )
    await once(socket, 'close')

    expect((await running.post()).status).toBe(202)
    await controller.bodies()
    expect(log.filter(({ level }) => level === 'error')).toStrictEqual([])
  })
})

describe('a rollout_id that is known', () => {
  it('is accepted again with the same body, whatever the order of its keys, but runs once', async () => {
    const { open, workflow } = gate()
    await using running = await startServer({ workflow })
    const { controller, url } = running
    await running.post({ metadata: { a: [{ x: 1, y: 2 }], b: 2 } })
    const again = controller.rolloutBody({ metadata: { b: 2, a: [{ y: 2, x: 1 }] } })
    const reversed = Object.fromEntries(Object.entries(again).toReversed())

    expect(await statusAndBody(await post(`${url}/rollout`, reversed))).toStrictEqual({
      status: 202,
      body: {},
    })
    open()
    await running.server.drain()

    expect(controller.events).toStrictEqual([
      'policy call',
      'policy call closed',
      'completion 200',
      'grader 200',
    ])
  })

  it('is refused with another body', async () => {
    await using running = await startServer()
    await running.post()

    expect(await statusAndBody(await running.post({ label: 'no' }))).toStrictEqual({
      status: 409,
      body: { detail: 'rollout_id is already in use by a rollout with another body' },
    })
  })

  it('is still known after the rollout ended', async () => {
    await using running = await startServer()
    const { controller, log } = running
    await running.post()
    await controller.bodies()
    await expect.poll(() => log.map(({ message }) => message)).toContain('rollout ended')

    expect((await running.post()).status).toBe(202)
    expect((await running.post({ label: 'no' })).status).toBe(409)
    await running.server.drain()
    expect(controller.callbacks).toHaveLength(2)
  })
})

describe('a rollout_id that was known', () => {
  it('is free again 15 minutes after the rollout ended', async () => {
    await using running = await startServer()
    await running.post()
    await running.controller.bodies()
    await expect.poll(() => running.log.map(({ message }) => message)).toContain('rollout ended')
    const now = performance.now()

    const clock = vi.spyOn(performance, 'now')
    try {
      clock.mockReturnValue(now + 14 * 60_000)
      expect((await running.post({ label: 'no' })).status).toBe(409)
      clock.mockReturnValue(now + 16 * 60_000)
      // The cache reads the clock once in a millisecond.
      await sleep(2)
      expect((await running.post({ label: 'no' })).status).toBe(202)
    } finally {
      clock.mockRestore()
    }
    await running.controller.until(() => running.controller.callbacks.length === 4)
  })
})

describe('a full queue', () => {
  it('accepts no more than fit, also of concurrent requests', async () => {
    const { open, workflow } = gate()
    await using running = await startServer({ workflow, maxConcurrent: 1, maxQueueDepth: 1 })
    const request = (rollout_id: string): Request =>
      new Request(`${running.url}/rollout`, {
        method: 'POST',
        body: JSON.stringify(running.controller.rolloutBody({ rollout_id })),
      })
    const answers = await Promise.all(
      ['a', 'b', 'c', 'd', 'e'].map(async (id) => running.server.fetch(request(id))),
    )
    expect(answers.map(({ status }) => status)).toStrictEqual([202, 202, 429, 429, 429])
    open()
    await running.controller.until(() => running.controller.callbacks.length === 4)
  })

  it('answers 429 with Retry-After, forgets the request, and recovers', async () => {
    const { open, workflow } = gate()
    await using running = await startServer({ workflow, maxConcurrent: 1, maxQueueDepth: 1 })
    await running.post({ rollout_id: 'runs' })
    await running.post({ rollout_id: 'waits' })

    const full = await running.post({ rollout_id: 'late' })
    expect(full.headers.get('retry-after')).toBe('5')
    expect(await statusAndBody(full)).toStrictEqual({
      status: 429,
      body: { detail: 'rollout queue is full; retry later' },
    })
    expect((await running.post({ rollout_id: 'waits' })).status).toBe(202)

    open()
    await running.controller.until(() => running.controller.callbacks.length === 4)
    expect((await running.post({ rollout_id: 'late' })).status).toBe(202)
  })
})

describe('a draining server', () => {
  it('answers 503 with Retry-After, also for rollouts it knows', async () => {
    await using running = await startServer()
    await running.post()
    await running.server.drain()

    const response = await running.post()
    expect(response.headers.get('retry-after')).toBe('5')
    expect(await statusAndBody(response)).toStrictEqual({
      status: 503,
      body: { detail: 'rollout server is shutting down' },
    })
  })
})

describe('an invalid body', () => {
  it.each([
    ['is not JSON', '{"rollout_id": sk-secret'],
    ['is empty', ''],
    ['breaks off', '{"a":'],
  ])('answers 422 when it %s', async (_, body) => {
    await using running = await startServer()

    expect(await statusAndBody(await post(`${running.url}/rollout`, body))).toStrictEqual(notJson)
  })

  it.each(['controller_api_key', 'llm_api_key'])(
    'answers 422 when its %s is longer than headers are',
    async (name) => {
      await using running = await startServer()
      expect((await running.post({ [name]: 'k'.repeat(16_384), rollout_id: 'fits' })).status).toBe(
        202,
      )
      expect(await statusAndBody(await running.post({ [name]: 'k'.repeat(16_385) }))).toStrictEqual(
        {
          status: 422,
          body: {
            detail: [
              {
                type: 'value_error',
                loc: ['body', name],
                msg: 'must have at most 16384 characters: it is sent in a header',
              },
            ],
          },
        },
      )
    },
  )

  it('answers 422 with one entry per problem and repeats nothing of the input', async () => {
    await using running = await startServer()

    const response = await running.post({
      rollout_id: '../other',
      initial_messages: 'hello sk-secret',
      label: 4711,
      chat_completions_url: undefined,
      llm_api_key: '',
      completion_callback_url: 'ftp://sk-secret',
    })

    expect(await statusAndBody(response)).toStrictEqual({
      status: 422,
      body: {
        detail: [
          {
            type: 'value_error',
            loc: ['body', 'rollout_id'],
            msg: 'must be a single path segment of printable ASCII, at most 256 characters',
          },
          {
            type: 'type_error',
            loc: ['body', 'initial_messages'],
            msg: 'Invalid input: expected array, received string',
          },
          {
            type: 'type_error',
            loc: ['body', 'label'],
            msg: 'Invalid input: expected string, received number',
          },
          { type: 'missing', loc: ['body', 'chat_completions_url'], msg: 'Field required' },
          {
            type: 'value_error',
            loc: ['body', 'llm_api_key'],
            msg: 'must be omitted or a non-empty string; an empty string is not a fallback',
          },
          {
            type: 'value_error',
            loc: ['body', 'completion_callback_url'],
            msg: 'must be an http or https URL without credentials',
          },
        ],
      },
    })
  })

  it('names the first wrong message of a list with almost a million of them', async () => {
    await using running = await startServer()
    const initial_messages = [{}, ...Array.from({ length: 999_000 }, () => 0)]

    expect(await statusAndBody(await running.post({ initial_messages }))).toStrictEqual({
      status: 422,
      body: {
        detail: [
          {
            type: 'type_error',
            loc: ['body', 'initial_messages', 1],
            msg: 'Invalid input: expected record, received number',
          },
        ],
      },
    })
  })

  it('refuses a body that is nested too deeply', async () => {
    await using running = await startServer()
    const body = JSON.stringify(running.controller.rolloutBody({ metadata: { deep: 1 } }))
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`

    const response = await post(
      `${running.url}/rollout`,
      body.replace('"deep":1', `"deep":${deep}`),
    )

    expect(await statusAndBody(response)).toStrictEqual({
      status: 422,
      body: { detail: [{ type: 'value_error', loc: ['body'], msg: 'is nested too deeply' }] },
    })
  })
})

describe('a body that is too large', () => {
  const tooLarge = { status: 413, body: { detail: 'request body is larger than 1000 bytes' } }

  it('is refused by its content-length, before it is read', async () => {
    await using running = await startServer({ maxBodyBytes: 1000 })

    expect(
      await statusAndBody(await post(`${running.url}/rollout`, 'x'.repeat(1001))),
    ).toStrictEqual(tooLarge)
  })

  it('is refused in chunks without a length', async () => {
    await using running = await startServer({ maxBodyBytes: 1000 })

    expect(await postChunks(`${running.url}/rollout`, 20, 'x'.repeat(100))).toStrictEqual(tooLarge)
  })

  const tooMany = {
    status: 413,
    body: { detail: 'request body has more than 1000000 values and keys' },
  }

  it('is refused with more keys and values than can be looked at', async () => {
    await using running = await startServer()
    const body = JSON.stringify(running.controller.rolloutBody({ metadata: 'many' }))
    const json = `{"a":[${'{"a":0},'.repeat(333_333)}{}]}`

    const response = await post(`${running.url}/rollout`, body.replace('"many"', json))
    expect(await statusAndBody(response)).toEqual(tooMany)
  })

  it.each([
    ['objects', 'initial_messages', `[${'{},'.repeat(1_000_000)}{}]`],
    ['lists', 'metadata', `{"a":[${'[],'.repeat(1_000_000)}[]]}`],
    ['texts', 'metadata', `{"a":[${'"\\\\",'.repeat(1_000_000)}""]}`],
    ['numbers', 'metadata', `{"a":[${'-1.5e3 , '.repeat(1_000_000)}0]}`],
    ['words', 'metadata', `{"a":[${'true,null,'.repeat(500_000)}false]}`],
  ])('is refused with more %s than can be looked at', { tags: 'slow' }, async (_, name, json) => {
    await using running = await startServer()
    const body = JSON.stringify(running.controller.rolloutBody({ [name]: 'many' }))

    expect(
      await statusAndBody(await post(`${running.url}/rollout`, body.replace('"many"', json))),
    ).toEqual(tooMany)
  })

  it('may have a number and a text with as many signs', { tags: 'nightly' }, async () => {
    await using running = await startServer()
    const content = '"[{\\1,'.repeat(500_000)
    const metadata = { numbers: [Number.MAX_VALUE, ...Array.from({ length: 900_000 }, () => 12)] }
    const initial_messages = [{ role: 'user', content }]

    expect((await running.post({ initial_messages, metadata })).status).toBe(202)
  })

  it('is accepted in chunks up to the limit', async () => {
    await using running = await startServer({ maxBodyBytes: 1000 })
    const json = JSON.stringify(running.controller.rolloutBody())

    expect(await postChunks(`${running.url}/rollout`, 1, json)).toStrictEqual({
      status: 202,
      body: {},
    })
  })
})

describe('the bearer', () => {
  it.each(['POST /rollout', 'GET /rollout/r1/status', 'POST /rollout/cancel', 'GET /openapi.json'])(
    'is required at %s',
    async (route) => {
      await using running = await startServer({ apiKey: key })
      const [method = '', path = ''] = route.split(' ')

      for (const authorization of ['', 'Bearer ', 'Bearer wrong', `Basic ${key}`, key]) {
        const response = await fetch(`${running.url}${path}`, {
          method,
          headers: { authorization },
        })
        expect(response.headers.get('www-authenticate')).toBe('Bearer')
        expect(await statusAndBody(response)).toStrictEqual(unauthorized)
      }
    },
  )

  it('opens every route, whatever the case of `Bearer`', async () => {
    await using running = await startServer({ apiKey: key })

    expect((await running.post({}, { authorization: `bearer ${key}` })).status).toBe(202)
  })

  it('is not required at /health', async () => {
    await using running = await startServer({ apiKey: key })

    expect((await fetch(`${running.url}/health`)).status).toBe(200)
  })
})

describe('the order of checks', () => {
  it('is authentication, size, JSON, schema, draining, duplicate, capacity', async () => {
    const { open, workflow } = gate()
    await using running = await startServer({
      apiKey: key,
      maxBodyBytes: 1000,
      workflow,
      maxConcurrent: 1,
      maxQueueDepth: 1,
    })
    const { url, server } = running
    await running.post({ rollout_id: 'runs' }, bearer)
    await running.post({ rollout_id: 'waits' }, bearer)
    const large = 'x'.repeat(1001)
    const statusOf = async (body: unknown, headers = bearer): Promise<number> =>
      (await post(`${url}/rollout`, body, headers)).status

    expect(await statusOf(large, { authorization: '' })).toBe(401)
    expect(await statusOf(large)).toBe(413)
    expect(await statusOf('{')).toBe(422)
    expect((await running.post({ rollout_id: 'waits', label: 'no' }, bearer)).status).toBe(409)
    expect((await running.post({ rollout_id: 'late' }, bearer)).status).toBe(429)

    const drained = server.drain()
    expect(await statusOf('{}')).toBe(422)
    expect((await running.post({ rollout_id: 'waits', label: 'no' }, bearer)).status).toBe(503)
    open()
    await drained
  })
})

describe('other paths and methods', () => {
  it('answers as FastAPI does', async () => {
    await using running = await startServer()
    const ask = async (method: string, path: string): Promise<unknown> =>
      statusAndBody(await fetch(`${running.url}${path}`, { method }))
    const notFound = { status: 404, body: { detail: 'Not Found' } }
    const notAllowed = { status: 405, body: { detail: 'Method Not Allowed' } }

    expect(await ask('GET', '/')).toStrictEqual(notFound)
    expect(await ask('POST', '/rollouts')).toStrictEqual(notFound)
    expect(await ask('GET', '/rollout')).toStrictEqual(notAllowed)
    expect(await ask('DELETE', '/rollout/cancel')).toStrictEqual(notAllowed)
    expect(await ask('POST', '/rollout/r1/status')).toStrictEqual(notAllowed)
    expect(await ask('POST', '/health')).toStrictEqual(notAllowed)
  })
})

/** Posts without a content-length. */
async function postChunks(url: string, count: number, chunk: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const request = httpRequest(url, { method: 'POST' }, (response) => {
    let text = ''
    response.on('data', (data: Buffer) => (text += data.toString()))
    response.on('end', () => {
      resolve({ status: response.statusCode, body: JSON.parse(text) as unknown })
    })
  })
  request.on('error', reject)
  for (let sent = 0; sent < count; sent += 1) request.write(chunk)
  request.end()
  return promise
}
