import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { describe, expect, it, onTestFinished } from 'vitest'

import { evaluate, inWorkspace, run, start } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const words = '-d data/words.jsonl'
const policy = '--policy policies/echo.ts'

/** Where an entrypoint is served that is up before the evaluation. */
async function served(env: Record<string, string> = {}): Promise<string> {
  const args = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--no-trajectories']
  const [, url = ''] = await start(args, env).printed(/Listening on (\S+)/)
  return url
}

describe('osmosis eval run --server', () => {
  it('runs the rollouts on a running server, whose grader rewards them', async () => {
    const url = await served()
    const { code, stderr, records, summary } = await evaluate(`--server ${url}`, words, policy)
    expect([code, records.length, summary['failed']]).toEqual([0, 4, 0])
    expect(records.map(({ reward }) => reward)).toEqual(await rewardsOfItsOwn())
    expect(stderr).toContain(`Rollout    ${url}\n`)
  })

  it('takes dataset and time limits of a config, without the entrypoint and its variables', async () => {
    const url = await served()
    const {
      code,
      records,
      run: ended,
    } = await evaluate(`configs/eval/secrets.toml --server ${url} --limit 2 --n 2`, policy)
    expect([code, records.length]).toEqual([0, 4])
    expect(ended).toMatchObject({ name: 'run' })
  })

  it('drives a server that knows callbacks only, and asks it for a lease once', async () => {
    const { url, orders } = await callbacksOnly(await served())
    const { code, records } = await evaluate(`--server ${url} --max-in-flight 1`, words, policy)
    expect([code, records.map(({ reward }) => reward)]).toEqual([0, await rewardsOfItsOwn()])
    const calledBack = orders.map((order) => order['completion_callback_url'] !== undefined)
    expect(calledBack).toEqual([false, true, true, true, true])
  })

  it('shows the key to the server, and says how when it is missing', async () => {
    const url = await served({ OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key' })
    const args = `eval run --server ${url} ${words} ${policy} --output ${temporaryFolder()}`
    const key = (value: string): Record<string, string> => ({
      OSMOSIS_ROLLOUT_SERVER_API_KEY: value,
    })
    const known = await run(args.split(' '), key('server-key'))
    expect(known.code).toBe(0)
    const guessed = await run(`${args} --fresh`.split(' '), key('guessed'))
    expect([guessed.code, guessed.stderr]).toEqual([
      1,
      expect.stringContaining('set OSMOSIS_ROLLOUT_SERVER_API_KEY'),
    ])
  })

  it('starts nothing when no server answers', async () => {
    const args = `eval run --server http://127.0.0.1:1 ${words} ${policy} --output ${temporaryFolder()}`
    const { code, stderr } = await run(args.split(' '))
    expect([code, stderr]).toEqual([1, expect.stringContaining('does not answer')])
  })
})

/** What the same entrypoint earns where the evaluation serves it. */
async function rewardsOfItsOwn(): Promise<unknown[]> {
  const { records } = await evaluate('-m rollouts/echo/main.ts', words, policy)
  return records.map(({ reward }) => reward)
}

/** A rollout server that knows callbacks only, as those of the Python SDK before 0.3.3 do. */
interface CallbacksOnly {
  readonly url: string
  /** Bodies of `POST /rollout`, in order. */
  readonly orders: Record<string, unknown>[]
}

/** Starts one in front of a server that knows more; it ends with the test. */
async function callbacksOnly(behind: string): Promise<CallbacksOnly> {
  const orders: Record<string, unknown>[] = []
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await text(incoming)
    if (incoming.url === '/rollout') {
      const order = JSON.parse(body) as Record<string, unknown>
      orders.push(order)
      if (order['completion_callback_url'] === undefined) {
        const missing = { loc: ['body', 'completion_callback_url'], msg: 'Field required' }
        outgoing.writeHead(422).end(JSON.stringify({ detail: [{ type: 'missing', ...missing }] }))
        return
      }
    }
    const passedOn = await fetch(`${behind}${incoming.url}`, {
      method: incoming.method ?? 'GET',
      headers: { 'content-type': 'application/json' },
      ...(body === '' ? {} : { body }),
    })
    outgoing.writeHead(passedOn.status).end(await passedOn.text())
  }
  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error: unknown) => outgoing.destroy(error as Error))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, orders }
}
