import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A callback as it came over the wire. */
export interface ReceivedCallback {
  kind: string
  headers: IncomingHttpHeaders
  body: unknown
}

/** How the controller answers one request: a status, or anything that a response can do. */
export type Answer = number | ((response: ServerResponse) => void)

/**
 * The cluster's side of the protocol: a policy that says "yes" at `/v1/chat/completions`, and
 * callback routes `/completion` and `/grader` that record what arrives.
 */
export class FakeController implements AsyncDisposable {
  readonly callbacks: ReceivedCallback[] = []
  /** What happened, in the order it was seen here. */
  readonly events: string[] = []
  readonly policyHeaders: IncomingHttpHeaders[] = []
  /** Answers of the next requests by route; 200 when used up. */
  readonly answers: Record<string, Answer[]> = {}
  /** Answers callbacks for which {@link answers} has nothing; undefined is 200. */
  otherwise: () => Answer | undefined = () => undefined
  /** Answers policy calls that are to hang; each is told when its connection was closed. */
  hanging = false
  openPolicyCalls = 0
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const path = (request.url ?? '').split('/').at(-1) ?? ''
      const body = JSON.parse(Buffer.concat(chunks).toString()) as unknown
      if (path === 'completions') this.#policy(request.headers, response)
      else this.#callback(path, request.headers, body, response)
    })
  })
  readonly #waiting = new Set<() => void>()

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** A body for `POST /rollout` that points here. */
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

  /** Resolves when `test` holds; it is asked again after everything that happens here. */
  async until(test: () => boolean): Promise<void> {
    while (!test()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#waiting.add(resolve)
      await promise
    }
  }

  /** Resolves with the bodies of both callbacks, or of the completion alone. */
  async bodies(expected: 1 | 2 = 2): Promise<unknown[]> {
    await this.until(() => this.callbacks.length >= expected)
    return this.callbacks.map(({ body }) => body)
  }

  note(event: string): void {
    this.events.push(event)
    this.#wake()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
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

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}
