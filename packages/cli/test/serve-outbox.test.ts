import { EventEmitter, once } from 'node:events'

import { expect, it } from 'vitest'

import { endpoint } from './model-endpoint.ts'
import { inWorkspace, start } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'

inWorkspace()

interface Cluster {
  url: string
  /** Keys of the callbacks that came, in order. */
  keys: unknown[]
  status: number
  /** Resolves when `count` callbacks have come. */
  received(count: number): Promise<void>
}

/** A training cluster that serves no policy and answers every callback with `status`. */
async function startCluster(): Promise<Cluster> {
  const came = new EventEmitter()
  const keys: unknown[] = []
  const { url } = await endpoint(({ path, headers }, response) => {
    const isCallback = /\/(?:completion|completed)$/.test(path)
    response.writeHead(isCallback ? cluster.status : 404).end()
    if (!isCallback) return
    keys.push(headers['idempotency-key'])
    came.emit('callback')
  })
  const cluster: Cluster = {
    url,
    keys,
    status: 503,
    received: async (count) => {
      while (keys.length < count) await once(came, 'callback')
    },
  }
  return cluster
}

it.each([
  {
    what: 'an entrypoint',
    args: ['rollouts/echo/main.ts'],
    path: '/rollout',
    key: 'r1/completion',
    body: (url: string) => ({
      rollout_id: 'r1',
      initial_messages: [{ role: 'user', content: 'hi' }],
      chat_completions_url: url,
      completion_callback_url: `${url}/completion`,
    }),
  },
  {
    what: 'an agent loop',
    args: ['-m', 'rollouts/agent-loops/adder.ts:agentLoop'],
    path: '/v1/rollout/init',
    key: 'r1/completed',
    body: (url: string) => ({
      rollout_id: 'r1',
      server_url: url,
      messages: [{ role: 'user', content: 'hi' }],
      completion_params: {},
    }),
  },
])(
  'osmosis serve --outbox: the next start of $what delivers what the last one could not, when it can listen',
  async ({ args, path, key, body }) => {
    const cluster = await startCluster()
    const outbox = ['--outbox', temporaryFolder()]
    const command = ['serve', ...args, '--port', '0', ...outbox]
    const first = startOsmosis(command)
    const [, url = ''] = await first.printed(/Listening on (\S+)/)
    const accepted = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body(cluster.url)),
    })
    expect(accepted.status).toBe(202)
    await cluster.received(1)
    first.child.kill('SIGKILL')
    await first.finished

    // It ends when it cannot listen, although results wait to be delivered.
    const taken = new URL(cluster.url).port
    const refused = await startOsmosis(['serve', ...args, '--port', taken, ...outbox]).finished
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/error: Port \d+ .*used by another program/)

    cluster.status = 200
    const before = cluster.keys.length
    const last = start(command)
    await last.printed(/Listening on/)
    await cluster.received(before + 1)
    expect((await last.end()).code).toBe(0)
    expect(new Set(cluster.keys)).toStrictEqual(new Set([key]))
  },
)
