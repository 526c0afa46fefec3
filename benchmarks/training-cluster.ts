// The training cluster of benchmark:server in a process of its own: policy, receiver of callbacks, and
// the driver that keeps rollouts going. Several of them share the load, so that none is the limit.
// Does what its parent sends, one order at a time, and tells how it went.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { Agent, request } from 'undici'

/** What a cluster is to do. */
export interface Load {
  /** Of the server. */
  readonly url: string
  /** Ids begin with it. */
  readonly name: string
  readonly inFlight: number
  readonly rollouts: number
  /** From a request to the policy to its answer. Milliseconds. */
  readonly latencyMs: number
  /** The policy answers the last call of a rollout when it is told to (`release`), not before. */
  readonly hold?: boolean
}

/** How it went. */
export interface LoadResult {
  /** Milliseconds. */
  readonly wallMs: number
  readonly cpuMs: number
  /** From each request to the answer that accepted the rollout. Milliseconds. */
  readonly acceptances: readonly number[]
}

/** All rollouts are held. */
export interface Held {
  /** Of the requests that wait for their answer: each repeats its conversation. */
  readonly heldBytes: number
}

/** Model calls of each rollout. */
export const calls = 4

// The main program only wants to know the types and the number.
if (process.send !== undefined && process.argv[1] === import.meta.filename) await serveParent()

async function serveParent(): Promise<void> {
  const answerText = sseText()
  const initialMessages = [
    { role: 'system', content: 'You are a careful calculator. '.repeat(20) },
    { role: 'user', content: 'What is 12 times 34? '.repeat(40) },
  ]
  const graded = new Map<string, () => void>()
  const asked = new Map<string, number>()
  let load: Load | undefined
  let held: (() => void)[] = []
  let heldBytes = 0

  const cluster = createServer((incoming, outgoing) => {
    const [, kind = '', id = ''] = (incoming.url ?? '').split('/')
    incoming.resume().on('end', () => {
      if (kind !== 'v1') {
        outgoing.writeHead(200).end()
        if (kind === 'grader') graded.get(id)?.()
        return
      }
      const answer = (): void => {
        outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).end(answerText)
      }
      const number = (asked.get(id) ?? 0) + 1
      asked.set(id, number)
      if (load?.hold !== true || number < calls) {
        setTimeout(answer, load?.latencyMs)
        return
      }
      held.push(answer)
      heldBytes += Number(incoming.headers['content-length'])
      if (held.length === load.inFlight) process.send?.({ heldBytes } satisfies Held)
    })
  })
  cluster.keepAliveTimeout = 60_000
  cluster.listen({ port: 0, backlog: 4096 })
  await new Promise((resolve) => cluster.once('listening', resolve))
  const clusterUrl = `http://127.0.0.1:${(cluster.address() as AddressInfo).port}`
  const dispatcher = new Agent({ connections: 64 })

  process.on('message', (order: Load | 'release') => {
    if (order === 'release') {
      const waiting = held
      held = []
      heldBytes = 0
      for (const answer of waiting) answer()
      return
    }
    load = order
    void drive(order)
  })
  process.on('disconnect', () => process.exit())
  process.send?.('ready')

  /** Keeps `inFlight` rollouts going until all have been graded. */
  async function drive({ url, name, inFlight, rollouts }: Load): Promise<void> {
    const acceptances: number[] = []
    const cpuBefore = process.cpuUsage()
    const startedAt = performance.now()
    let started = 0
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        while (started < rollouts) {
          started += 1
          acceptances.push(await rollOut(url, `${name}-${started}`))
        }
      }),
    )
    const { user, system } = process.cpuUsage(cpuBefore)
    const wallMs = performance.now() - startedAt
    process.send?.({ wallMs, cpuMs: (user + system) / 1000, acceptances } satisfies LoadResult)
  }

  /** Resolves when the rollout was graded, with the time its acceptance took. */
  async function rollOut(url: string, id: string): Promise<number> {
    const end = new Promise<void>((resolve) => graded.set(id, resolve))
    const sentAt = performance.now()
    const { statusCode, body } = await request(`${url}/rollout`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        rollout_id: id,
        initial_messages: initialMessages,
        label: '408',
        chat_completions_url: `${clusterUrl}/v1/${id}`,
        completion_callback_url: `${clusterUrl}/completion/${id}`,
        grader_callback_url: `${clusterUrl}/grader/${id}`,
      }),
      dispatcher,
    })
    await body.dump()
    const acceptedMs = performance.now() - sentAt
    if (statusCode !== 202) throw new Error(`the server answered ${statusCode}`)
    await end
    graded.delete(id)
    asked.delete(id)
    return acceptedMs
  }
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
