// What a rollout costs its server, as a multiple of what node:http alone needs for the same requests:
// four model calls, two callbacks. This process is the training cluster (policy, callbacks, driver),
// the servers are processes of their own. Beside them: how long acceptances take, and both with an
// outbox.
//
//   npx -y pnpm@12 run benchmark:server
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

import { Agent, request } from 'undici'

interface Figures {
  /** Since the process began. Milliseconds. */
  cpuMs: number
  /** Bytes. */
  rss: number
  peakRss: number
  loopP99Ms: number
}

const calls = 4
const answerText = sseText()
const initialMessages = [
  { role: 'system', content: 'You are a careful calculator. '.repeat(20) },
  { role: 'user', content: 'What is 12 times 34? '.repeat(40) },
]
let latencyMs = 0
const acceptances: number[] = []
const waiting = new Map<string, () => void>()
const cluster = createServer((incoming, outgoing) => {
  const url = incoming.url ?? ''
  incoming.resume().on('end', () => {
    if (url.endsWith('/completions')) {
      const answer = (): void => {
        outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).end(answerText)
      }
      setTimeout(answer, latencyMs)
      return
    }
    outgoing.writeHead(200).end()
    const [, kind, id = ''] = url.split('/')
    if (kind === 'grader') waiting.get(id)?.()
  })
})
cluster.keepAliveTimeout = 60_000
cluster.listen({ port: 0, backlog: 4096 })
await once(cluster, 'listening')
const clusterUrl = `http://127.0.0.1:${(cluster.address() as AddressInfo).port}`
const agent = new Agent({ connections: 64 })

const rounds = [
  { inFlight: 1, rollouts: 40, latency: 20 },
  { inFlight: 64, rollouts: 1_000, latency: 250 },
  { inFlight: 250, rollouts: 2_000, latency: 1_000 },
  { inFlight: 2_000, rollouts: 8_000, latency: 1_000 },
]
const rows: object[] = []
for (const { inFlight, rollouts, latency } of rounds) {
  const bare = await measure('bare', inFlight, rollouts, latency)
  const ours = await measure('ours', inFlight, rollouts, latency)
  const kept = await measure('kept', inFlight, rollouts, latency)
  const row = {
    inFlight,
    bareCpu: round(bare.cpu),
    cpu: round(ours.cpu),
    cpuRatio: round(ours.cpu / bare.cpu),
    efficiency: round(ours.efficiency),
    bareKilobytes: round(bare.kilobytes),
    kilobytes: round(ours.kilobytes),
    bareLoopP99: round(bare.loopP99),
    loopP99: round(ours.loopP99),
    rssAfter: round(ours.rssAfter),
    acceptP50: round(ours.acceptP50),
    acceptP99: round(ours.acceptP99),
    keptCpu: round(kept.cpu),
    keptEfficiency: round(kept.efficiency),
    keptAcceptP50: round(kept.acceptP50),
    keptAcceptP99: round(kept.acceptP99),
  }
  rows.push(row)
  console.log(
    `${String(inFlight).padStart(4)} in flight: ${row.cpu} ms CPU per rollout (${row.cpuRatio} times bare), ` +
      `efficiency ${row.efficiency}, ${row.kilobytes} KB each (bare ${row.bareKilobytes}), ` +
      `event loop p99 ${row.loopP99} ms (bare ${row.bareLoopP99}), memory after ${row.rssAfter} times before, ` +
      `accepted in ${row.acceptP50} ms (p99 ${row.acceptP99}); with an outbox ${row.keptCpu} ms CPU, ` +
      `efficiency ${row.keptEfficiency}, accepted in ${row.keptAcceptP50} ms (p99 ${row.keptAcceptP99})`,
  )
}
console.log(JSON.stringify({ node: process.version, rows }))
process.exit()

interface Measured {
  /** Of the server, per rollout. Milliseconds. */
  cpu: number
  /** The time the policy alone would have taken, by the time it took. */
  efficiency: number
  /** Memory at its peak, for each rollout in flight. */
  kilobytes: number
  loopP99: number
  /** Memory when all is over, as a multiple of what it was before. */
  rssAfter: number
  /** From the request to the answer that accepts a rollout. Milliseconds. */
  acceptP50: number
  acceptP99: number
}

async function measure(
  kind: string,
  inFlight: number,
  rollouts: number,
  latency: number,
): Promise<Measured> {
  const server = fork(path.join(import.meta.dirname, 'server-under-test.ts'), [kind], {
    execArgv: ['--expose-gc'],
  })
  server.once('exit', (code) => {
    if (code !== 0) throw new Error(`the server ended with code ${code}`)
  })
  const [port] = (await once(server, 'message')) as [number]
  const url = `http://127.0.0.1:${port}`
  // Warms the code up; the connections and the memory of a load are part of what is measured.
  latencyMs = 5
  await drive(url, kind, 16, 200, 'warm')
  latencyMs = latency
  await ask(server, 'collect')
  const before = await ask(server, 'reset')
  acceptances.length = 0
  const started = performance.now()
  await drive(url, kind, inFlight, rollouts, 'run')
  const wall = performance.now() - started
  const after = await ask(server, 'figures')
  await ask(server, 'collect')
  const settled = await ask(server, 'collect')
  server.disconnect()
  await once(server, 'exit')
  acceptances.sort((a, b) => a - b)
  return {
    cpu: (after.cpuMs - before.cpuMs) / rollouts,
    efficiency: ((rollouts / inFlight) * calls * latencyMs) / wall,
    kilobytes: (after.peakRss - before.rss) / 1024 / inFlight,
    loopP99: after.loopP99Ms,
    rssAfter: settled.rss / before.rss,
    acceptP50: acceptances[Math.floor(acceptances.length * 0.5)] ?? 0,
    acceptP99: acceptances[Math.floor(acceptances.length * 0.99)] ?? 0,
  }
}

async function ask(server: ChildProcess, what: string): Promise<Figures> {
  server.send(what)
  const [figures] = (await once(server, 'message')) as [Figures]
  return figures
}

/** Keeps `inFlight` rollouts going until `rollouts` have been graded. */
async function drive(
  url: string,
  kind: string,
  inFlight: number,
  rollouts: number,
  name: string,
): Promise<void> {
  let started = 0
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (started < rollouts) {
        started += 1
        await rollOut(url, `${name}-${kind}-${started}`)
      }
    }),
  )
}

async function rollOut(url: string, id: string): Promise<void> {
  const graded = new Promise<void>((resolve) => waiting.set(id, resolve))
  const sentAt = performance.now()
  const { statusCode, body } = await request(`${url}/rollout`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      rollout_id: id,
      initial_messages: initialMessages,
      label: '408',
      chat_completions_url: `${clusterUrl}/v1`,
      completion_callback_url: `${clusterUrl}/completion/${id}`,
      grader_callback_url: `${clusterUrl}/grader/${id}`,
    }),
    dispatcher: agent,
  })
  await body.dump()
  acceptances.push(performance.now() - sentAt)
  if (statusCode !== 202) throw new Error(`the server answered ${statusCode}`)
  await graded
  waiting.delete(id)
}

function sseText(): string {
  const event = (delta: object, finishReason: string | null): string => {
    const choices = [{ index: 0, delta, finish_reason: finishReason }]
    const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
    return `data: ${JSON.stringify({ ...head, choices })}\n\n`
  }
  const words = Array.from({ length: 20 }, (_, n) => event({ content: `word${n} ` }, null))
  return `${event({ role: 'assistant' }, null)}${words.join('')}${event({}, 'stop')}data: [DONE]\n\n`
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
