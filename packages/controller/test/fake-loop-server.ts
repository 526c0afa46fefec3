import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { readJson, type Acknowledgement, type Admission } from './fake-rollout-server.ts'

/** The body of `POST /v1/rollout/init`, as far as the fake needs it. */
export interface Init {
  rollout_id: string
  server_url: string
  api_key: string
  [key: string]: unknown
}

export interface FakeLoopServer extends AsyncDisposable {
  url: string
  inits: Init[]
  authorization: (string | undefined)[]
  /** Resolves with init number `n`, counted from 0. */
  init(n: number): Promise<Init>
}

export const addTool = {
  type: 'function',
  function: { name: 'add', description: 'Adds', parameters: { type: 'object' }, strict: false },
}

/** Accepts a rollout with one tool. */
export function accept(init: Init): Admission {
  const body = JSON.stringify({ rollout_id: init.rollout_id, tools: [addTool] })
  return { status: 202, body }
}

/** The server of an agent loop whose admission the test controls; it leaves the loop to the test. */
export async function startLoopServer(
  admit: (init: Init, n: number) => Admission | Promise<Admission> = accept,
): Promise<FakeLoopServer> {
  const inits: Init[] = []
  const authorization: (string | undefined)[] = []
  const waiting: (() => void)[] = []
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const init = (await readJson(incoming)) as Init
      authorization.push(incoming.headers.authorization)
      const n = inits.push(init) - 1
      for (const wake of waiting.splice(0)) wake()
      const { status, headers = {}, body = '{}' } = await admit(init, n)
      outgoing.writeHead(incoming.url === '/v1/rollout/init' ? status : 404, headers).end(body)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    inits,
    authorization,
    init: async (n) => {
      for (;;) {
        const init = inits[n]
        if (init !== undefined) return init
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

/** One model call of a loop. */
export async function chat(init: Init, body: Record<string, unknown> = {}): Promise<Response> {
  const asked = { model: 'default', messages: [], rollout_id: init.rollout_id, logprobs: true }
  return callTrainer(init, '/v1/chat/completions', JSON.stringify({ ...asked, ...body }))
}

/** The result of a loop, and how it is acknowledged. */
export async function completed(
  init: Init,
  body: Record<string, unknown> = {},
): Promise<Acknowledgement> {
  const result = { rollout_id: init.rollout_id, status: 'COMPLETED', final_messages: [] }
  const text = JSON.stringify({ ...result, ...body })
  const answer = await callTrainer(init, '/v1/rollout/completed', text)
  return [answer.status, await answer.json()]
}

/** A request to the trainer that an init names. */
export async function callTrainer(
  { server_url: url, api_key: key }: Pick<Init, 'server_url' | 'api_key'>,
  route: string,
  body: string | Uint8Array<ArrayBuffer>,
): Promise<Response> {
  const headers = { authorization: `Bearer ${key}` }
  return fetch(url + route, { method: 'POST', headers, body })
}
