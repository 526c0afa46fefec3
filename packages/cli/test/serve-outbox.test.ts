import { EventEmitter, once } from 'node:events'

import { expect, it } from 'vitest'

import { inWorkspace, start } from './in-process.ts'
import { endpoint } from './model-endpoint.ts'
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

it(
  'osmosis serve --outbox: the next start of an agent loop delivers what the last one could not, when it can listen',
  { tags: 'nightly' },
  async () => {
    const keys = await deliveredKeys({
      args: ['-m', 'rollouts/agent-loops/adder.ts:agentLoop'],
      path: '/v1/rollout/init',
      body: (url) => ({
        rollout_id: 'r1',
        server_url: url,
        messages: [{ role: 'user', content: 'hi' }],
        completion_params: {},
      }),
    })
    expect(keys).toEqual(new Set(['r1/completed']))
  },
)

it(
  'osmosis serve --outbox: the next start of an entrypoint delivers what the last one could not, when it can listen',
  { tags: 'slow' },
  async () => {
    const keys = await deliveredKeys({
      args: ['rollouts/echo/main.ts'],
      path: '/rollout',
      body: (url) => ({
        rollout_id: 'r1',
        initial_messages: [{ role: 'user', content: 'hi' }],
        chat_completions_url: url,
        completion_callback_url: `${url}/completion`,
      }),
    })
    expect(keys).toEqual(new Set(['r1/completion']))
  },
)

interface Served {
  readonly args: readonly string[]
  /** Where a rollout is sent to. */
  readonly path: string
  readonly body: (url: string) => object
}

/** Kills a server whose callback was refused, and starts one that has it accepted. The keys of all callbacks. */
async function deliveredKeys({ args, path, body }: Served): Promise<Set<unknown>> {
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
  return new Set(cluster.keys)
}
