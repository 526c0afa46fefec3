import type { IncomingHttpHeaders, ServerResponse } from 'node:http'

import { HttpPeer, type PeerRequest } from './http-peer.ts'

/** A callback as it came over the wire. */
export interface ReceivedCallback {
  kind: string
  headers: IncomingHttpHeaders
  body: unknown
}

/** How the controller answers one request: a status, or anything that a response can do. */
export type CallbackAnswer = number | ((response: ServerResponse) => void)

/**
 * The cluster's side of the protocol: a policy that says "yes" at `/v1/chat/completions`, and
 * callback routes `/completion` and `/grader` that record what arrives.
 */
export class FakeController extends HttpPeer {
  readonly callbacks: ReceivedCallback[] = []
  /** The events that the controller has seen, in order. */
  readonly events: string[] = []
  readonly policyHeaders: IncomingHttpHeaders[] = []
  /** Answers of the next requests by route; 200 when used up. */
  readonly answers: Record<string, CallbackAnswer[]> = {}
  /** Answers callbacks when {@link answers} is empty; undefined is 200. */
  otherwise: () => CallbackAnswer | undefined = () => undefined
  /** Whether policy calls hang. Each is answered with nothing until its connection is closed. */
  hanging = false
  openPolicyCalls = 0
  /** A body for `POST /rollout` with the URLs of this controller. */
  rolloutBody(overrides: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      rollout_id: 'r1',
      initial_messages: [{ role: 'user', content: 'Is it?' }],
      label: 'yes',
      chat_completions_url: `${this.url}/v1`,
      controller_api_key: 'controller-key',
      completion_callback_url: `${this.url}/completion`,
      grader_callback_url: `${this.url}/grader`,
      ...overrides,
    }
  }

  /** Resolves with the bodies of both callbacks, or of the completion alone. */
  async bodies(expected: 1 | 2 = 2): Promise<unknown[]> {
    await this.until(() => this.callbacks.length >= expected)
    return this.callbacks.map(({ body }) => body)
  }

  note(event: string): void {
    this.events.push(event)
    this.wake()
  }

  protected override receive({ path, headers, body }: PeerRequest, response: ServerResponse): void {
    const route = path.split('/').at(-1) ?? ''
    if (route === 'completions') this.#policy(headers, response)
    else this.#callback(route, headers, body, response)
  }

  #callback(kind: string, headers: IncomingHttpHeaders, body: unknown, out: ServerResponse): void {
    this.callbacks.push({ kind, headers, body })
    const answer = this.answers[kind]?.shift() ?? this.otherwise() ?? 200
    this.note(typeof answer === 'number' ? `${kind} ${answer}` : kind)
    if (typeof answer === 'function') answer(out)
    else out.writeHead(answer).end()
  }

  #policy(headers: IncomingHttpHeaders, response: ServerResponse): void {
    this.policyHeaders.push(headers)
    this.openPolicyCalls += 1
    response.on('close', () => {
      this.openPolicyCalls -= 1
      this.note('policy call closed')
    })
    this.note('policy call')
    if (this.hanging) return
    const chunk = {
      choices: [{ index: 0, delta: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
    }
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
  }
}
