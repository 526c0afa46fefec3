// What hostile error messages cost a server: how long it takes to remove keys from 64 KiB, which is all that
// it reads of one, and how soon `/health` answers while a hundred rollouts fail with ten megabytes each. Exit code 1 when a goal
// is missed.
//
//   npx -y pnpm@12 run bench errors
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { SecretValues } from '@osmosis/protocol/http'
import { request } from 'undici'

import { median } from './figures.ts'

const mostCleaned = 64 * 1024
const askEveryMs = 5
const keys = Array.from({ length: 2000 }, () => `sk-proj-${randomBytes(24).toString('base64url')}`)
const words = 'Tool call failed: the document begins with these words, and continues. '

const texts: [name: string, text: string, goal: number][] = [
  ['words', words.repeat(mostCleaned / words.length), 10],
  ['base64', randomBytes((mostCleaned * 3) / 4).toString('base64'), 10],
  // Chosen to be slow.
  ['the beginning of every key', 'sk-proj-'.repeat(mostCleaned / 8), 20],
  ['nothing but keys', keys.join(' ').slice(0, mostCleaned), 20],
]
const secrets = new SecretValues()
secrets.add(...keys)
secrets.redact(words.repeat(10_000))

const rows: { figure: string; ms: number; goal: number }[] = texts.map(([name, text, goal]) => ({
  figure: `64 KiB of ${name}, cleaned of ${keys.length} keys`,
  ms: median(Array.from({ length: 5 }, () => timed(() => secrets.redact(text)))),
  goal,
}))
rows.push({
  figure: '/health while 100 rollouts fail with 10 MB each, p99',
  ms: await healthP99(),
  goal: 50,
})

for (const { figure, ms, goal } of rows) {
  console.log(`${figure.padEnd(56)} ${ms.toFixed(1).padStart(7)} ms   goal: at most ${goal} ms`)
}
console.log(JSON.stringify({ node: process.version, rows }))
process.exit(rows.some(({ ms, goal }) => ms > goal) ? 1 : 0)

async function healthP99(): Promise<number> {
  let reported = 0
  const controller = createServer((incoming, outgoing) => {
    incoming.resume().on('end', () => {
      outgoing.writeHead(200).end()
      if (incoming.url === '/grader') reported += 1
    })
  }).listen(0)
  await once(controller, 'listening')
  const controllerUrl = `http://127.0.0.1:${(controller.address() as AddressInfo).port}`
  const script = path.join(import.meta.dirname, 'failing-server.ts')
  const server = fork(script, { stdio: ['ignore', 'inherit', 'ignore', 'ipc'] })
  const [port] = (await once(server, 'message')) as [number]
  const url = `http://127.0.0.1:${port}`

  /** Fails `count` rollouts at once, and resolves with the durations of `/health` until all have failed. */
  const fail = async (count: number): Promise<number[]> => {
    reported = 0
    const rollouts = Array.from({ length: count }, async () => {
      const { body } = await request(`${url}/rollout`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          initial_messages: [],
          chat_completions_url: controllerUrl,
          completion_callback_url: `${controllerUrl}/completion`,
          grader_callback_url: `${controllerUrl}/grader`,
        }),
      })
      await body.dump()
    })
    // At a steady pace: a client that waits for each answer would send the fewest requests just when
    // the server is busy.
    const durations: Promise<number>[] = []
    const isOver = (): boolean => reported >= count
    while (!isOver()) {
      durations.push(askHealth(url))
      await sleep(askEveryMs)
    }
    await Promise.all(rollouts)
    return Promise.all(durations)
  }
  // A warm-up: what a server loads and compiles with its first rollouts is not measured.
  await fail(20)
  const times: number[] = []
  for (let round = 0; round < 5; round += 1) times.push(...(await fail(100)))
  server.disconnect()
  controller.close().closeAllConnections()
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN
}

/** How long the answer took. Milliseconds. */
async function askHealth(url: string): Promise<number> {
  const start = performance.now()
  await (await request(`${url}/health`)).body.dump()
  return performance.now() - start
}

function timed(act: () => unknown): number {
  const start = performance.now()
  act()
  return performance.now() - start
}
