// Benefit and cost of workers: rollouts per second of a workflow that computes, with two workers and
// with one; processor time and start-up of a workflow that waits, in a worker and in process.
//
//   npx -y pnpm@12 run bench workers
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { Worker, isMainThread, parentPort } from 'node:worker_threads'

import { reportOf } from '@osmosis/protocol'
import { LocalBackend, type ExecutionBackend, type RolloutRequest } from '@osmosis/server'
import { createWorkerPool, type WorkerPoolBackend } from '@osmosis/server/child'

import { median, rounded } from './figures.ts'
import { workload } from './worker-workload.ts'

const workerFile = path.join(import.meta.dirname, 'worker-under-test.ts')
const policyMs = 50
const speedupGoal = 1.6
const computed = 60

async function measureAll(): Promise<void> {
  const policy = new Worker(import.meta.filename)
  const [url] = (await once(policy, 'message')) as [string]

  const starts: number[] = []
  const pools = new Map<number, WorkerPoolBackend>()
  for (const workers of [1, 2]) {
    const started = performance.now()
    pools.set(workers, await createWorkerPool({ module: workerFile, workers }))
    starts.push(performance.now() - started)
  }
  const local = new LocalBackend(workload)
  const backends: [string, ExecutionBackend][] = [
    ['in process', local],
    ...[...pools].map(([n, pool]): [string, ExecutionBackend] => [`${n} workers`, pool]),
  ]
  for (const [, backend] of backends)
    await drive(backend, { kind: 'wait', url, inFlight: 32, rollouts: 300 })

  // Several times in turns, so that other load on the machine affects all equally.
  const perSecond = new Map<string, number[]>(backends.map(([name]) => [name, []]))
  for (let round = 0; round < 5; round += 1) {
    for (const [name, backend] of backends) {
      const ms = await drive(backend, { kind: 'compute', url, inFlight: 32, rollouts: computed })
      perSecond.get(name)?.push(computed / (ms / 1000))
    }
  }
  const computing = Object.fromEntries(
    [...perSecond].map(([name, figures]) => [name, median(figures)]),
  )
  const one = perSecond.get('1 workers') ?? []
  const speedup = median((perSecond.get('2 workers') ?? []).map((two, n) => two / (one[n] ?? NaN)))
  for (const [name, figure] of Object.entries(computing)) {
    console.log(`computing, ${name}: ${rounded(figure, 1)} rollouts per second`)
  }
  console.log(
    `computing, 2 workers by 1: ${rounded(speedup)} (goal: at least ${speedupGoal} on two idle cores)`,
  )

  for (const [name, backend] of backends) {
    const pool = backend === local ? undefined : (backend as WorkerPoolBackend)
    const before = await cpuOf(pool)
    const rollouts = 1000
    const ms = await drive(backend, { kind: 'wait', url, inFlight: 100, rollouts })
    const cpu = ((await cpuOf(pool)) - before) / rollouts
    console.log(
      `waiting, ${name}: ${rounded(cpu)} ms of processor time per rollout, ${Math.round(rollouts / (ms / 1000))} rollouts per second (${Math.round(100 / ((4 * policyMs) / 1000))} at most)`,
    )
  }
  console.log(
    `until 1 worker is ready: ${Math.round(starts[0] ?? 0)} ms, 2: ${Math.round(starts[1] ?? 0)} ms`,
  )
  for (const pool of pools.values()) await pool.close()
  await policy.terminate()
}

interface Load {
  readonly kind: 'compute' | 'wait'
  readonly url: string
  readonly inFlight: number
  readonly rollouts: number
}

/** Time for all rollouts. Milliseconds. */
async function drive(backend: ExecutionBackend, load: Load): Promise<number> {
  const started = performance.now()
  let next = 0
  await Promise.all(
    Array.from({ length: load.inFlight }, async () => {
      while (next < load.rollouts) {
        next += 1
        await execute(backend, load, `r-${next}`)
      }
    }),
  )
  return performance.now() - started
}

async function execute(
  backend: ExecutionBackend,
  { kind, url }: Load,
  rolloutId: string,
): Promise<void> {
  const request: RolloutRequest = {
    rolloutId,
    initialMessages: [{ role: 'user', content: kind }],
    label: 'x',
    metadata: null,
    chatCompletionsUrl: url,
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
  }
  const { workflow, grading } = await reportOf(backend.execute(request))
  const failure = workflow.failure ?? grading?.failure ?? null
  if (failure !== null) throw new Error(failure.message)
}

/** Processor time of this process, and of the workers that a pool of at most two has. Milliseconds. */
async function cpuOf(pool: WorkerPoolBackend | undefined): Promise<number> {
  const { user, system } = process.cpuUsage()
  const workers = pool === undefined ? [] : await Promise.all(pool.workerPids.map(workerCpu))
  return (user + system) / 1000 + workers.reduce((sum, ms) => sum + ms, 0)
}

/** As the system counts it, in hundredths of a second. */
async function workerCpu(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** In a separate thread. Its processor time counts as the server's, equally for all variants. */
function servePolicy(): void {
  const choice = { delta: { role: 'assistant', content: '408' }, finish_reason: 'stop' }
  const text = `data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`
  const server = createServer((incoming, outgoing) => {
    incoming.resume().on('end', () => {
      const answer = (): void => {
        outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).end(text)
      }
      setTimeout(answer, policyMs)
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen({ port: 0, backlog: 4096 }, () => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has none
    parentPort?.postMessage(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)
  })
}

if (isMainThread) await measureAll()
else servePolicy()
