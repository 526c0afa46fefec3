import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request as it came over the wire. */
export interface ReceivedRequest {
  path: string
  headers: IncomingHttpHeaders
  raw: string
  body: Record<string, unknown>
}

/** How the trainer answers: a status, a JSON body with 200, or anything a response can do. */
export type Answer = number | object | ((response: ServerResponse) => void | Promise<void>)

/** The trainer's side of the protocol: a policy and the `completed` route, both recorded. */
export class FakeTrainer implements AsyncDisposable {
  readonly chats: ReceivedRequest[] = []
  readonly completed: ReceivedRequest[] = []
  /** Answers of the next model calls; the text "ok" when used up. */
  readonly chatAnswers: Answer[] = []
  /** Answers of the next `completed` calls; {@link otherwise} when used up. */
  readonly completedAnswers: Answer[] = []
  otherwise: () => Answer = () => ({ status: 'ok' })
  /** Answers model calls for which {@link chatAnswers} has nothing. */
  policy: (request: ReceivedRequest) => Answer = () => said('ok')
  openChats = 0
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString()
      const body = JSON.parse(raw) as Record<string, unknown>
      this.#receive({ path: request.url ?? '', headers: request.headers, raw, body }, response)
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

  /** A body for `POST /v1/rollout/init` that points here. */
  initBody(overrides: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      rollout_id: 'r1',
      server_url: this.url,
      messages: [{ role: 'user', content: 'hi' }],
      completion_params: {},
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

  /** Resolves with the bodies of the first `count` `completed` calls. */
  async results(count = 1): Promise<Record<string, unknown>[]> {
    await this.until(() => this.completed.length >= count)
    return this.completed.map(({ body }) => body)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #receive(request: ReceivedRequest, response: ServerResponse): void {
    if (request.path.endsWith('/v1/chat/completions')) {
      this.chats.push(request)
      this.openChats += 1
      response.on('close', () => {
        this.openChats -= 1
        this.#wake()
      })
      answer(response, this.chatAnswers.shift() ?? this.policy(request))
    } else {
      this.completed.push(request)
      answer(response, this.completedAnswers.shift() ?? this.otherwise())
    }
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

function answer(response: ServerResponse, what: Answer): void {
  if (typeof what === 'function') what(response)
  else if (typeof what === 'number') response.writeHead(what).end('{"detail":"no"}')
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(what))
}

/** An answer of the policy that says `content`, and calls tools when there are any. */
export function said(content: string | null, toolCalls?: readonly object[]): object {
  return {
    choices: [
      {
        message: {
          role: 'assistant',
          content,
          ...(toolCalls ? { tool_calls: toolCalls } : {}),
        },
        finish_reason: toolCalls ? 'tool_calls' : 'stop',
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 },
  }
}

export const hang: Answer = () => undefined
export const reset: Answer = (response) => {
  response.socket?.destroy()
}
