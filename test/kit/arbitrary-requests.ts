import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'

import * as fc from 'fast-check'

/** A request as its bytes may be, right or wrong. */
export interface ArbitraryRequest {
  readonly method: string
  /** As it is written in the first line. */
  readonly path: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/** The statuses that the OpenAPI document of a server names, by `get /path/{id}`. */
export type DocumentedAnswers = ReadonlyMap<string, ReadonlySet<number>>

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'PROPFIND']
/** Headers except those that delimit the message: length and transfer encoding. */
const headerNames = [
  'accept',
  'accept-encoding',
  'authorization',
  'connection',
  'content-encoding',
  'content-type',
  'cookie',
  'if-none-match',
  'range',
  'x-osmosis-rollout-lease',
  'x-rollout-id',
  'x-forwarded-for',
]
const headerValue = fc.oneof(
  fc.constantFrom('Bearer key', 'bearer', 'application/json', 'text/plain', 'gzip', 'bytes=0-1'),
  fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e]{0,40}[\x21-\x7e])?$/),
)
const header = fc.oneof(
  // The only key that tests have.
  fc.constant(['authorization', 'Bearer key'] as const),
  fc.tuple(fc.constantFrom(...headerNames), headerValue),
)
const step = fc.oneof(
  fc.constantFrom('..', '.', '%2e%2e', '%zz', '%00', '%2f', '%', 'r1', 'status', 'result', ''),
  fc.string({ unit: 'binary' }).map((words) => encodeURIComponent(words.toWellFormed())),
)

/** Bodies with known keys, some of them with a wrong value or missing. */
export function mostlyValid(...valid: Record<string, unknown>[]): fc.Arbitrary<unknown> {
  const value = fc.jsonValue({ maxDepth: 2 })
  const records = valid.map((body) => {
    const fields = Object.entries(body).map(
      ([key, good]) => [key, fc.oneof({ weight: 9, arbitrary: fc.constant(good) }, value)] as const,
    )
    return fc.record(Object.fromEntries(fields), { requiredKeys: [] })
  })
  const whole = valid.map((body) => fc.constant(body))
  return fc.oneof(...records, ...whole)
}

/**
 * Requests for the routes of a server, most of them with a part that is wrong.
 *
 * @param routes - paths, with parameters in braces
 * @param bodies - what is sent besides arbitrary bytes and JSON
 */
export function arbitraryRequests(
  routes: readonly string[],
  bodies: fc.Arbitrary<unknown>,
): fc.Arbitrary<ArbitraryRequest> {
  const known = fc
    .tuple(fc.constantFrom(...routes), step)
    .map(([route, id]) => route.replace(/\{\w+\}/, id))
  const unknown = fc.array(step, { maxLength: 5 }).map((steps) => `/${steps.join('/')}`)
  const query = fc.oneof(
    fc.constant(''),
    step.map((words) => `?${words}`),
  )
  const json = fc.oneof(fc.jsonValue({ maxDepth: 4 }), { weight: 3, arbitrary: bodies })
  const body = fc.oneof(
    { weight: 4, arbitrary: json.map((value) => Buffer.from(JSON.stringify(value) ?? '')) },
    { weight: 1, arbitrary: fc.json().map((words) => Buffer.from(words.slice(0, -1))) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
  )
  return fc.record({
    method: fc.oneof(fc.constant('POST'), fc.constant('GET'), fc.constantFrom(...methods)),
    path: fc
      .tuple(fc.oneof({ weight: 4, arbitrary: known }, unknown), query)
      .map(([path, words]) => path + words),
    headers: fc.tuple(header, header, header),
    body,
  })
}

/** Sends exactly this request. Resolves with the status of the answer, undefined without an answer. */
export async function sendArbitrary(
  url: string,
  { method, path, headers, body }: ArbitraryRequest,
): Promise<number | undefined> {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${new URL(url).host}`,
    `content-length: ${body.length}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ]
  return sendBytes(url, Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), body]))
}

/** Sends exactly these bytes. Resolves with the status of the first answer, undefined without an answer. */
export async function sendBytes(url: string, bytes: Uint8Array): Promise<number | undefined> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.end(bytes)
  // A server may reset the connection before it has read everything, with or without an answer.
  const answer = await text(socket).catch(() => '')
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(answer) ?? []
  return status === undefined ? undefined : Number(status)
}

/** Reads the OpenAPI description of a server. */
export async function documentedAnswers(url: string, key?: string): Promise<DocumentedAnswers> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const { paths } = (await (await fetch(`${url}/openapi.json`, { headers })).json()) as {
    paths: Record<string, Record<string, { responses: object }>>
  }
  return new Map(
    Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(
        ([method, { responses }]) =>
          [`${method} ${path}`, new Set(Object.keys(responses).map(Number))] as const,
      ),
    ),
  )
}

/** The permitted statuses of a request: those that its route documents, or those of an unknown route. */
export function allowedAnswers(
  documented: DocumentedAnswers,
  { method, path }: ArbitraryRequest,
): ReadonlySet<number> {
  // Steps are resolved before routes are looked at.
  const { pathname } = new URL(`http://server${path}`)
  const routes = [...documented.keys()].map((route) => route.split(' ') as [string, string])
  const [here] = routes.filter(([, route]) =>
    new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(pathname),
  )
  if (here === undefined) return new Set([404, 401])
  const [verb, route] = here
  const asked = method === 'HEAD' ? 'get' : method.toLowerCase()
  const answers = documented.get(`${verb} ${route}`) ?? new Set()
  return asked === verb ? answers : new Set([405, ...(answers.has(401) ? [401] : [])])
}
