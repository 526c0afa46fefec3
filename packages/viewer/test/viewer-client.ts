import { request, type IncomingHttpHeaders } from 'node:http'

import type { LiveUpdate } from '../src/wire.ts'

/** What a server answered. */
export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** The token in the link of a viewer. */
export function tokenOf(url: string): string {
  return /#token=([\w-]+)/.exec(url)?.[1] ?? ''
}

/** Asks a viewer as a program would that has its link. */
export class ViewerClient {
  readonly #base: URL
  readonly #token: string

  constructor(url: string) {
    this.#base = new URL(url)
    this.#token = tokenOf(url)
  }

  /** With these headers instead of the token; `fetch` would not let a host be claimed. */
  async ask(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = this.#base
      const asked = request({ hostname, port, path, headers }, (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece))
        response.on('end', () => {
          const { statusCode: status = 0 } = response
          resolve({ status, headers: response.headers, text: Buffer.concat(pieces).toString() })
        })
      })
      asked.on('error', reject)
      asked.end()
    })
  }

  async get(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${this.#token}`)
    return fetch(new URL(path, this.#base), { ...init, headers })
  }

  async json<T>(path: string): Promise<T> {
    return (await (await this.get(path)).json()) as T
  }

  async note(run: string, note: unknown): Promise<Response> {
    return this.get(`/api/runs/${run}/notes`, { method: 'POST', body: JSON.stringify(note) })
  }

  /** What happens to a run from now on, until `signal` aborts. */
  async updates(run: string, signal: AbortSignal): Promise<AsyncGenerator<LiveUpdate>> {
    const { body } = await this.get(`/api/runs/${run}/events`, { signal })
    return updatesIn(body as unknown as AsyncIterable<Uint8Array>)
  }
}

async function* updatesIn(body: AsyncIterable<Uint8Array>): AsyncGenerator<LiveUpdate> {
  let text = ''
  for await (const bytes of body) {
    text += Buffer.from(bytes).toString()
    const events = text.split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6)) as LiveUpdate
    }
  }
}
