// The training cluster of bench server and bench distributed in a process of its own: policy,
// receiver of callbacks, and the driver that keeps rollouts going. Several of them share the load, so that none is the limit.
// It executes the orders that its parent sends, one after the other, and reports each result.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import type { GraderCallbackBody } from '@osmosis/protocol/wire'
import { Agent, request } from 'undici'

/** The work of a cluster. */
export interface Load {
  /** Of the server. */
  readonly url: string
  /** Ids begin with it. */
  readonly name: string
  readonly inFlight: number
  readonly rollouts: number
  /**
   * The first `inFlight` rollouts are sent over this time, like those that follow, each of which is sent when
   * another has ended. Default: all in one moment. Milliseconds.
   */
  readonly spreadMs?: number
  /** From a request to the policy to its answer. Milliseconds. */
  readonly latencyMs: number
  /** Whether the policy answers the last call of each rollout only after `release`. */
  readonly hold?: boolean
  /** Size of the prompts and answers. Characters; default: small. */
  readonly texts?: { readonly prompt: number; readonly answer: number }
  /** Of all rollouts. */
  readonly metadata?: object
}

/** The measured result. */
export interface LoadResult {
  /** Milliseconds. */
  readonly wallMs: number
  readonly cpuMs: number
  /** From each request to the answer that accepted the rollout. Milliseconds. */
  readonly acceptances: readonly number[]
  /** From each request to the callback that ended the rollout, in the order of the callbacks. Milliseconds. */
  readonly durations: readonly number[]
  /** Rollouts that ended with a reward, and others. */
  readonly rewarded: number
  readonly failed: number
  /** Callbacks of rollouts that had ended already. */
  readonly repeated: number
}

/** All rollouts are held. */
export interface Held {
  /** Of the requests that wait for their answer: each repeats its conversation. */
  readonly heldBytes: number
}

/** Model calls of each rollout. */
export const calls = 4

// The main program only needs the types and the number.
if (process.send !== undefined && process.argv[1] === import.meta.filename) await serveParent()

async function serveParent(): Promise<void> {
  const few = {
    answer: sseText(Array.from({ length: 20 }, (_, n) => `word${n} `)),
    initialMessages: [
      { role: 'system', content: 'You are a careful calculator. '.repeat(20) },
      { role: 'user', content: 'What is 12 times 34? '.repeat(40) },
    ],
  }
  let texts = few
  const graded = new Map<string, (body: GraderCallbackBody) => void>()
  let repeated = 0
  const asked = new Map<string, number>()
  let load: Load | undefined
  let held: (() => void)[] = []
  let heldBytes = 0

  const cluster = createServer((incoming, outgoing) => {
    const [, kind = '', id = ''] = (incoming.url ?? '').split('/')
    if (kind === 'grader') {
      let text = ''
      incoming.setEncoding('utf8').on('data', (part: string) => (text += part))
      incoming.on('end', () => {
        outgoing.writeHead(200).end()
        const end = graded.get(id)
        if (end === undefined) repeated += 1
        else end(JSON.parse(text) as GraderCallbackBody)
      })
      return
    }
    incoming.resume().on('end', () => {
      if (kind !== 'v1') {
        outgoing.writeHead(200).end()
        return
      }
      const answer = (): void => {
        outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).end(texts.answer)
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
    texts = order.texts === undefined ? few : longTexts(order.texts)
    void drive(order)
  })
  process.on('disconnect', () => process.exit())
  process.send?.('ready')

  /** Keeps `inFlight` rollouts going until all have been graded. */
  async function drive(order: Load): Promise<void> {
    const { url, name, metadata, inFlight, rollouts, spreadMs = 0 } = order
    const ended: Ended[] = []
    repeated = 0
    const cpuBefore = process.cpuUsage()
    const startedAt = performance.now()
    let started = 0
    await Promise.all(
      Array.from({ length: inFlight }, async (_, n) => {
        if (spreadMs > 0) await sleep((n / inFlight) * spreadMs)
        while (started < rollouts) {
          started += 1
          ended.push(await rollOut(url, `${name}-${started}`, metadata))
        }
      }),
    )
    const { user, system } = process.cpuUsage(cpuBefore)
    const rewarded = ended.filter(({ isRewarded }) => isRewarded).length
    process.send?.({
      wallMs: performance.now() - startedAt,
      cpuMs: (user + system) / 1000,
      acceptances: ended.map(({ acceptedMs }) => acceptedMs),
      durations: ended.map(({ endedMs }) => endedMs),
      rewarded,
      failed: ended.length - rewarded,
      repeated,
    } satisfies LoadResult)
  }

  /** Resolves when the rollout was graded. */
  async function rollOut(url: string, id: string, metadata?: object): Promise<Ended> {
    const sentAt = performance.now()
    let endedMs = 0
    const end = new Promise<GraderCallbackBody>((resolve) => {
      graded.set(id, (body) => {
        endedMs = performance.now() - sentAt
        graded.delete(id)
        asked.delete(id)
        resolve(body)
      })
    })
    const { statusCode, body } = await request(`${url}/rollout`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        rollout_id: id,
        initial_messages: texts.initialMessages,
        label: '408',
        metadata,
        chat_completions_url: `${clusterUrl}/v1/${id}`,
        completion_callback_url: `${clusterUrl}/completion/${id}`,
        grader_callback_url: `${clusterUrl}/grader/${id}`,
      }),
      dispatcher,
    })
    await body.dump()
    const acceptedMs = performance.now() - sentAt
    if (statusCode !== 202) throw new Error(`the server answered ${statusCode}`)
    const { status, sample } = await end
    return { acceptedMs, endedMs, isRewarded: status === 'success' && sample?.reward === 1 }
  }
}

interface Ended {
  readonly acceptedMs: number
  readonly endedMs: number
  readonly isRewarded: boolean
}

function longTexts({ prompt, answer }: NonNullable<Load['texts']>) {
  const pieces = Array.from({ length: 20 }, (_, n) => prose(answer / 20, n + 2))
  return { answer: sseText(pieces), initialMessages: [{ role: 'user', content: prose(prompt, 1) }] }
}

/** Text that compresses about as well as human text. */
function prose(length: number, seed: number): string {
  let state = seed
  const next = (below: number): number => {
    state = (state * 48_271) % 2_147_483_647
    return Math.floor((state / 2_147_483_647) * below)
  }
  let text = ''
  // Few words are frequent, and most are rare.
  while (text.length < length) text += `${((next(40) * next(60)) ** 2).toString(36)} `
  return text.slice(0, length)
}

function sseText(pieces: readonly string[]): string {
  const event = (delta: object, finishReason: string | null): string => {
    const choices = [{ index: 0, delta, finish_reason: finishReason }]
    const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
    return `data: ${JSON.stringify({ ...head, choices })}\n\n`
  }
  const words = pieces.map((content) => event({ content }, null))
  return `${event({ role: 'assistant' }, null)}${words.join('')}${event({}, 'stop')}data: [DONE]\n\n`
}
