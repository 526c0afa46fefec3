// What a model call through the policy client costs beyond the same request by a bare HTTP client,
// which reads the answer and checks nothing. Both in one run, taking turns.
//
//   npx -y pnpm@12 run bench calls
import { fork } from 'node:child_process'
import path from 'node:path'

import { RolloutContext } from '@osmosis/core'
import { Agent, request } from 'undici'

import { median, quantile, rounded } from './figures.ts'

const messages = [
  { role: 'system', content: 'You are a careful calculator. '.repeat(20) },
  { role: 'user', content: 'What is 12 times 34? '.repeat(40) },
]

interface Figures {
  /** Milliseconds. */
  p50: number
  p99: number
  /** Of this process, per call. Milliseconds. */
  cpu: number
}

const rows: object[] = []
for (const answerChunks of [20, 200]) {
  for (const { inFlight, calls, latencyMs } of [
    { inFlight: 1, calls: 300, latencyMs: 10 },
    { inFlight: 64, calls: 2000, latencyMs: 250 },
  ]) {
    const endpoint = fork(path.join(import.meta.dirname, 'streaming-endpoint.ts'), {
      env: { ...process.env, ANSWER_CHUNKS: String(answerChunks), LATENCY_MS: String(latencyMs) },
    })
    const port = await new Promise<number>((resolve) => {
      endpoint.once('message', (message) => resolve(Number(message)))
    })
    const url = `http://127.0.0.1:${port}/v1`
    // The first round warms both up.
    await compare(url, inFlight, calls / 2)
    const { bare, ours } = await compare(url, inFlight, calls)
    endpoint.disconnect()
    const row = {
      answerChunks,
      inFlight,
      addedP50: rounded(ours.p50 - bare.p50),
      addedP99: rounded(ours.p99 - bare.p99),
      addedCpu: rounded(ours.cpu - bare.cpu),
      cpuRatio: rounded(ours.cpu / bare.cpu),
    }
    rows.push(row)
    console.log(
      `${String(answerChunks).padStart(3)} chunks, ${String(inFlight).padStart(2)} in flight: ${row.addedP50} ms more at p50, ${row.addedP99} at p99, ${row.addedCpu} ms more CPU per call (${row.cpuRatio} times bare)`,
    )
  }
}
console.log(JSON.stringify({ node: process.version, rows }))
process.exit()

async function compare(
  url: string,
  inFlight: number,
  calls: number,
): Promise<{ bare: Figures; ours: Figures }> {
  const agent = new Agent({ keepAliveTimeout: 30_000 })
  const bare = await measure(inFlight, calls, async () => {
    const { body } = await request(`${url}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', stream: true, messages }),
      dispatcher: agent,
    })
    await body.text()
  })
  let rollout = 0
  const ours = await measure(inFlight, calls, async () => {
    rollout += 1
    const context = new RolloutContext({ rolloutId: `r${rollout}`, chatCompletionsUrl: url })
    await context.policy('main').complete({ messages })
  })
  await agent.close()
  return { bare, ours }
}

async function measure(
  inFlight: number,
  calls: number,
  call: () => Promise<void>,
): Promise<Figures> {
  const times: number[] = []
  let left = calls
  const cpuBefore = process.cpuUsage()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left > 0) {
        left -= 1
        const start = performance.now()
        await call()
        times.push(performance.now() - start)
      }
    }),
  )
  const { user, system } = process.cpuUsage(cpuBefore)
  return { p50: median(times), p99: quantile(times, 0.99), cpu: (user + system) / 1000 / calls }
}
