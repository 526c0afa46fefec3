import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'

import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'

import { pythonWithTorch, temporaryFolder, withTorch, runs } from '../../../../test/kit/index.ts'
import { startLearner, type LearnerProcess } from '../../src/local/learner-process.ts'
import { neutralFields, refusedFields } from '../sampling-fields.ts'

const { it } = withTorch()

async function started(policy: 'CallingPolicy' | 'ImpatientPolicy'): Promise<LearnerProcess> {
  return startLearner({
    model: 'table',
    python: pythonWithTorch(),
    policyClass: `${path.join(import.meta.dirname, '../reference/table_policy.py')}:${policy}`,
    loraRank: 0,
  })
}

/** One for all tests that it outlives: Python takes seconds to load torch. */
let learner: LearnerProcess
beforeAll(async () => {
  learner = await started('CallingPolicy')
})
afterAll(() => learner.close())

/** Sends bytes, and resolves with all that comes back until the learner closes the connection. */
async function exchange({ url }: LearnerProcess, bytes: string | Buffer): Promise<string> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.end(bytes)
  return text(socket)
}

function head(
  { apiKey }: LearnerProcess,
  route: string,
  headers: readonly string[],
  key = apiKey,
): string {
  const all = [`${route} HTTP/1.1`, 'host: here', `authorization: Bearer ${key}`, ...headers]
  return `${all.join('\r\n')}\r\n\r\n`
}

function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}

it('whatever is wrong with a request, its answer says so and the next request is answered', async () => {
  const json = (body: string | Buffer, ...headers: string[]): Buffer =>
    Buffer.concat([
      Buffer.from(
        head(learner, 'POST /update', [
          `content-length: ${Buffer.byteLength(body)}`,
          'connection: close',
          ...headers,
        ]),
      ),
      Buffer.from(body),
    ])
  const update = (...headers: string[]): string => head(learner, 'POST /update', headers)
  const attacks: readonly (readonly [name: string, status: number, bytes: string | Buffer])[] = [
    [
      'no key, and a body that never comes',
      401,
      'POST /update HTTP/1.1\r\ncontent-length: 99\r\n\r\n',
    ],
    ['a wrong key', 401, head(learner, 'POST /update', ['content-length: 99'], 'wrong')],
    ['a key with other signs', 401, head(learner, 'GET /health', [], 'ключ')],
    [
      'a wrong key, in chunks',
      401,
      head(learner, 'POST /save', ['transfer-encoding: chunked'], 'x'),
    ],
    [
      'a wrong key that waits for a 100',
      401,
      head(learner, 'POST /save', ['expect: 100-continue'], 'x'),
    ],
    ['a route that is not there', 404, head(learner, 'POST /nothing', ['content-length: 99'])],
    ['a method of another route', 404, head(learner, 'GET /update', [])],
    ['another method', 501, head(learner, 'PUT /update', [])],
    ['chunks', 411, `${update('transfer-encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`],
    ['chunks and a length', 411, update('transfer-encoding: chunked', 'content-length: 2')],
    ['a body that is too long', 413, update('content-length: 99999999999999')],
    ['a negative length', 400, update('content-length: -1')],
    ['a length that is a word', 400, update('content-length: many')],
    ['a length with an exponent', 400, update('content-length: 1e3')],
    ['a length with a sign', 400, update('content-length: +5')],
    ['a length that is empty', 400, update('content-length:')],
    ['a length in hexadecimal', 400, update('content-length: 0x10')],
    ['a length with more digits than any', 400, update(`content-length: ${'9'.repeat(5000)}`)],
    ['two lengths', 400, update('content-length: 2', 'content-length: 3')],
    ['a list of lengths', 400, update('content-length: 2, 2')],
    ['less than it says', 400, `${update('content-length: 50')}{}`],
    ['no HTTP', 400, 'hello there, learner\r\n\r\n'],
    ['another version of HTTP', 505, 'GET /health HTTP/9.0\r\n\r\n'],
    ['an endless line', 414, `GET /${'a'.repeat(70_000)} HTTP/1.1\r\n\r\n`],
    ['an endless header', 431, update(`x: ${'a'.repeat(70_000)}`)],
    ['too many headers', 431, update(...Array.from({ length: 200 }, (_, at) => `x-${at}: 1`))],
    ['no body', 400, update('connection: close')],
    ['bytes that are no text', 400, json(Buffer.from([0x7b, 0xff, 0xfe, 0x7d]))],
    ['half a character', 400, json(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))],
    ['half an escaped character', 400, json(String.raw`{"loss": "\ud83d"}`)],
    ['a mark of the order of bytes', 400, json('\uFEFF{}')],
    ['UTF-16', 400, json(Buffer.from('{"loss": "policy_gradient"}', 'utf16le'))],
    ['a list', 400, json('[]')],
    ['null', 400, json('null')],
    ['a text', 400, json('"sequences"')],
    ['half a body', 400, json('{"sequences": [')],
    ['two bodies', 400, json('{}{}')],
    ['NaN', 400, json('{"kl": NaN}')],
    ['depth', 400, json('['.repeat(200_000))],
    ['depth in an object', 400, json(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`)],
    ['depth that can just be read', 400, json(`{"loss": ${'['.repeat(900)}${']'.repeat(900)}}`)],
  ]
  for (const [name, status, bytes] of attacks) {
    const answer = await exchange(learner, bytes)
    expect(statusOf(answer), `${name}: ${answer}`).toBe(status)
    const { error } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))) as { error: object }
    expect(error, `said for ${name}`).toMatchObject({ message: expect.stringMatching(/./) })
  }
  const health = head(learner, 'GET /health', ['connection: close'])
  expect(statusOf(await exchange(learner, health))).toBe(200)
  const patient = head(learner, 'POST /load', ['expect: 100-continue', 'content-length: 2'])
  expect(statusOf(await exchange(learner, `${patient}[]`))).toBe(100)
})

it('slow senders and too many connections are ended, and others are answered', async () => {
  const impatient = await started('ImpatientPolicy')
  onTestFinished(() => impatient.close())
  const { port, hostname } = new URL(impatient.url)
  const opened = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }
  const attacks = [
    [() => '', /^$/],
    [() => 'POST /upd', /^$/],
    [() => head(impatient, 'POST /update', []).slice(0, -4), /^$/],
    [() => head(impatient, 'POST /update', ['content-length: 50']), /^HTTP\/1\.1 408 /],
    [() => `${head(impatient, 'POST /update', ['content-length: 50'])}{`, /^HTTP\/1\.1 408 /],
  ] as const
  for (const [start, expected] of attacks) {
    const socket = await opened()
    socket.write(start())
    expect(await text(socket)).toMatch(expected)
  }
  // It sends all the time, but never the end.
  const drop = await opened()
  drop.write('GET /health HTTP/1.1\r\n')
  const dripping = setInterval(() => drop.write('x: y\r\n'), 100)
  expect(await text(drop)).toBe('')
  clearInterval(dripping)
  const held = [await opened(), await opened(), await opened()]
  const health = head(impatient, 'GET /health', ['connection: close'])
  expect(statusOf(await exchange(impatient, health))).toBe(503)
  await Promise.all(held.map((socket) => once(socket.resume(), 'close')))
  await expect.poll(async () => statusOf(await exchange(impatient, health))).toBe(200)
})

it('refuses by name what changes an answer, and takes what does not', async () => {
  const ask = async (fields: object): Promise<readonly [status: number, said: string]> => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }]
    const body = { messages: [{ role: 'user', content: 'a' }], tools, max_tokens: 2, ...fields }
    const answer = await fetch(`${learner.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${learner.apiKey}` },
      body: JSON.stringify(body),
    })
    return [answer.status, await answer.text()]
  }
  for (const [name, value] of refusedFields) {
    const [status, said] = await ask({ [name]: value })
    expect([status, said], `${name} of ${JSON.stringify(value)}`).toEqual([
      400,
      expect.stringContaining(`\`${name}\``),
    ])
  }
  for (const fields of neutralFields) expect((await ask(fields))[0]).toBe(200)

  const [status, said] = await ask({ messages: [{ role: 'user', content: 'a'.repeat(80) }] })
  expect([status, said]).toEqual([400, expect.stringContaining('"context_length_exceeded"')])
  expect(said).toMatch(/max_prompt_length .* --max-length/)
})

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
const sequence = {
  ids: [0, 2, 4],
  mask: [0, 1, 1],
  logprobs: [0, -2, -2],
  advantage: 1,
  scale: 0.1,
}
const spoken: Json = {
  messages: [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b', tool_calls: [call], reasoning_content: 'c' },
    { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'd' }] },
  ],
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
  temperature: 1,
  max_tokens: 3,
  max_completion_tokens: 3,
  stop: ['e'],
  seed: 1,
  n: 1,
  top_p: 1,
  stream: true,
  stream_options: { include_usage: true },
  conversation: 'x',
  chat_template_kwargs: { enable_thinking: false },
}
const trained: Json = {
  loss: 'policy_gradient',
  surrogate: 'ppo',
  learning_rate: 0.01,
  epochs: 1,
  minibatches: 2,
  clip_low: 0.2,
  clip_high: 0.3,
  kl: 0.1,
  importance_cap: 2,
  max_grad_norm: 1,
  max_drift: 9,
  weight_decay: 0,
  seed: 1,
  sequences: [
    { ...sequence, temperature: 1 },
    { ...sequence, advantages: [0, 1, -1] },
  ],
}
const measured: Json = { sequences: [{ ids: [0, 2, 4], temperature: 1 }] }

/** Every place in a value, as paths. */
function placesIn(value: Json): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [[]]
  const parts = Object.entries(value).flatMap(([name, part]) =>
    placesIn(part).map((place) => [name, ...place]),
  )
  return [[], ...parts]
}

/** The text of a value in which one place has other text; null leaves the place out. */
function changed(value: Json, [name, ...rest]: readonly string[], other: string | null): string {
  if (name === undefined) return other ?? 'null'
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const isList = Array.isArray(value)
  const parts = Object.entries(value).flatMap(([key, part]) => {
    if (key === name && rest.length === 0 && other === null) return []
    const own = key === name ? changed(part, rest, other) : JSON.stringify(part)
    return [isList ? own : `${JSON.stringify(key)}: ${own}`]
  })
  return isList ? `[${parts.join()}]` : `{${parts.join()}}`
}

const lists = ['[]', '[[]]', '[null]', '[""]', '[{}]', '[1,2]', '[0,1,1]', '[[0],[1],[1]]']
const words = ['""', String.raw`"\u0000"`, String.raw`"\ud800"`, '"relative"', '"/"', '"//"']
const folders = [`"/${'long'.repeat(2000)}"`, '"/proc/no/folder"', '"/dev/null/x"']
const numbers = ['0', '-1', '1.5', '1e30', '-1e30', '1e999', '1e-30', 'NaN', 'Infinity', '-0.0']
const large = ['9'.repeat(400), '9'.repeat(5000), '-9223372036854775809']
const deep = ['['.repeat(300) + ']'.repeat(300), `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`]
const others = ['null', 'true', 'false', '{}', '{"a":{}}']
/** What is in a place instead; null leaves it out. */
const wrong = fc.oneof(
  fc.constantFrom(null, ...lists, ...words, ...folders, ...numbers, ...large, ...deep, ...others),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
)

it('no body that is wrong at any place is more than refused', { timeout: 240_000 }, async () => {
  const folder = path.join(await temporaryFolder(), 'state')
  const ask = async (route: string, body: string): Promise<Response> =>
    fetch(`${learner.url}${route}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${learner.apiKey}` },
      body,
    })
  const bodies: readonly (readonly [route: string, body: Json])[] = [
    ['/v1/chat/completions', spoken],
    ['/update', trained],
    ['/logprobs', measured],
    ['/save', { folder }],
    ['/load', { folder }],
    ['/export', { folder: `${folder}-exported` }],
  ]
  for (const [route, body] of bodies) {
    expect((await ask(route, JSON.stringify(body))).status, `at ${route}`).toBe(200)
  }
  await ask('/save', JSON.stringify({ folder }))
  const place = fc
    .constantFrom(...bodies)
    .chain(([route, body]) =>
      fc.tuple(fc.constant(route), fc.constant(body), fc.constantFrom(...placesIn(body)), wrong),
    )
  await fc.assert(
    fc.asyncProperty(place, async ([route, body, at, other]) => {
      const answer = await ask(route, changed(body, at, other))
      const said = await answer.text()
      expect([200, 400, 409], `it said ${said}`).toContain(answer.status)
      if (answer.status !== 200) expect(JSON.parse(said)).toHaveProperty('error.message')
      if (route === '/update') await ask('/load', JSON.stringify({ folder }))
    }),
    { numRuns: runs(1500) },
  )
  expect((await ask('/v1/chat/completions', JSON.stringify(spoken))).status).toBe(200)
})
