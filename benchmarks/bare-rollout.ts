// What a rollout of `ask-four-times.ts` is with node:http alone: it reads the streamed answers, sends each
// conversation on with them in it, and the same callbacks; no validation, no context, no record, no retries.
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

import { calls } from './ask-four-times.ts'

/** What it reads of a request for a rollout. */
export interface BareRollout {
  readonly rollout_id: string
  readonly initial_messages: readonly object[]
  readonly chat_completions_url: string
  readonly completion_callback_url: string
  readonly grader_callback_url: string
}

/** All that it reads of a chunk. */
interface BareChunk {
  choices: { delta: { content?: string } }[]
}

const agent = new Agent({ keepAlive: true })

/**
 * Listens for rollouts. A request is answered when `take` has resolved.
 *
 * @returns the port
 */
export async function acceptBare(take: (rollout: BareRollout) => Promise<void>): Promise<number> {
  const server = createServer((incoming, outgoing) => {
    let text = ''
    incoming.setEncoding('utf8').on('data', (part: string) => (text += part))
    incoming.on('end', () => {
      void take(JSON.parse(text) as BareRollout).then(() =>
        outgoing.writeHead(202, { 'content-type': 'application/json' }).end('{}'),
      )
    })
  })
  await new Promise<void>((resolve) => server.listen({ port: 0, backlog: 4096 }, resolve))
  return (server.address() as AddressInfo).port
}

/** @returns the conversation */
export async function askBare(rollout: BareRollout): Promise<object[]> {
  const messages = [...rollout.initial_messages]
  const ids = { 'x-rollout-id': rollout.rollout_id, 'x-sample-id': 'main' }
  for (let call = 0; call < calls; call += 1) {
    const url = `${rollout.chat_completions_url}/chat/completions`
    const events = await post(url, { model: 'm', stream: true, messages }, ids)
    messages.push(
      { role: 'assistant', content: contentOf(events) },
      { role: 'user', content: 'Go on.' },
    )
  }
  return messages
}

/** Sends both callbacks. */
export async function tellBare(rollout: BareRollout, messages: readonly object[]): Promise<void> {
  const { rollout_id } = rollout
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
