// A rollout server in a process of its own, so that its CPU and memory are its own: `ours` is
// @osmosis/server with a workflow that asks the policy four times, `kept` the same with an outbox,
// `bare` does the same work with node:http alone: it reads the streamed answers, sends each conversation
// on with them in it, and the same callbacks; no validation, no context, no record, no retries. Tells its
// parent where it listens, and its figures whenever it is asked for them.
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'

import { LocalBackend } from '@osmosis/core'
import { createRolloutServer, serve } from '@osmosis/server'

import { askFourTimes, calls } from './ask-four-times.ts'

/** What the server says of itself. */
export interface ServerFigures {
  /** Since the process began. Milliseconds. */
  readonly cpuMs: number
  /** Objects of JavaScript, and buffers. Bytes. */
  readonly heap: number
  /** Memory of the process at its peak so far. Bytes. */
  readonly peakRss: number
  /** Between two turns of the event loop, since the last reset. Milliseconds. */
  readonly loopP99Ms: number
}

async function startOurs(outboxDir: string | undefined): Promise<number> {
  const server = createRolloutServer({
    backend: new LocalBackend(askFourTimes),
    logger: false,
    outboxDir,
    // The other servers that are compared write none.
    trajectories: false,
  })
  const { port } = await serve(server, { port: 0, handleSignals: false })
  return port
}

interface BareRollout {
  rollout_id: string
  initial_messages: object[]
  chat_completions_url: string
  completion_callback_url: string
  grader_callback_url: string
}

/** All that it reads of a chunk. */
interface BareChunk {
  choices: { delta: { content?: string } }[]
}

const agent = new Agent({ keepAlive: true })

function post(url: string, body: object, ids: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', ...ids }
    request(url, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.on('end', () => resolve(text)).on('error', reject)
    })
      .on('error', reject)
      .end(JSON.stringify(body))
  })
}

function contentOf(events: string): string {
  let content = ''
  for (const line of events.split('\n')) {
    if (!line.startsWith('data: ') || line === 'data: [DONE]') continue
    const { choices } = JSON.parse(line.slice('data: '.length)) as BareChunk
    content += choices[0]?.delta.content ?? ''
  }
  return content
}

async function runBare(rollout: BareRollout): Promise<void> {
  const { rollout_id } = rollout
  const messages = [...rollout.initial_messages]
  const ids = { 'x-rollout-id': rollout_id, 'x-sample-id': 'main' }
  for (let call = 0; call < calls; call += 1) {
    const url = `${rollout.chat_completions_url}/chat/completions`
    const events = await post(url, { model: 'm', stream: true, messages }, ids)
    messages.push(
      { role: 'assistant', content: contentOf(events) },
      { role: 'user', content: 'Go on.' },
    )
  }
  const outcome = { rollout_id, status: 'success' }
  await post(rollout.completion_callback_url, outcome, {
    'idempotency-key': `${rollout_id}/completion`,
  })
  const sample = { id: 'main', messages, reward: 1 }
  await post(
    rollout.grader_callback_url,
    { ...outcome, samples: { main: sample }, sample },
    { 'idempotency-key': `${rollout_id}/grader` },
  )
}

async function startBare(): Promise<number> {
  const server: Server = createServer((incoming, outgoing) => {
    let text = ''
    incoming.setEncoding('utf8').on('data', (part: string) => (text += part))
    incoming.on('end', () => {
      outgoing.writeHead(202, { 'content-type': 'application/json' }).end('{}')
      void runBare(JSON.parse(text) as BareRollout)
    })
  })
  await new Promise<void>((resolve) => server.listen({ port: 0, backlog: 4096 }, resolve))
  return (server.address() as AddressInfo).port
}

function makeOutbox(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-benchmark-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
  return folder
}

const kind = process.argv[2]
const port =
  kind === 'bare' ? await startBare() : await startOurs(kind === 'kept' ? makeOutbox() : undefined)
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
process.on('message', (what) => {
  if (what === 'collect') globalThis.gc?.()
  if (what === 'reset') delay.reset()
  const { user, system } = process.cpuUsage()
  const { heapUsed, external } = process.memoryUsage()
  process.send?.({
    cpuMs: (user + system) / 1000,
    heap: heapUsed + external,
    peakRss: process.resourceUsage().maxRSS * 1024,
    loopP99Ms: delay.percentile(99) / 1e6,
  } satisfies ServerFigures)
})
process.on('disconnect', () => process.exit())
process.send?.(port)
