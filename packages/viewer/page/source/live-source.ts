import type { RunNote } from '@osmosis/eval/analysis'

import type { LiveUpdate, RegradeAnswer } from '../../src/wire.ts'
import type { Source } from './source.ts'

/** An answer of the server other than a success. */
class RefusedRequest extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Pause before connecting again to an unreachable server. Milliseconds. */
const pauseMs = 1000

/** The server of this page. */
export function liveSource(): Source {
  const token = takeToken()
  const request = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${token}`)
    const response = await fetch(path, { ...init, headers })
    if (!response.ok) throw new RefusedRequest(response.status, await response.text())
    return response
  }
  const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
    (await (await request(path, signal === undefined ? {} : { signal })).json()) as T

  return {
    kind: 'server',
    runs: async () => get('api/runs'),
    run: async (name) => get(at(name, '')),
    transcript: async (run, [row, attempt]) => get(at(run, `/transcripts/${row}.${attempt}`)),
    search: async (run, words, signal) => {
      const query = new URLSearchParams(words.map((word) => ['text', word]))
      return get(at(run, `/search?${query.toString()}`), signal)
    },
    trainings: async () => get('api/trainings'),
    training: async (name) => get(`api/trainings/${encodeURIComponent(name)}`),
    trainingRows: async (name) => get(`api/trainings/${encodeURIComponent(name)}/rows`),
    note: async (run, note) => {
      const headers = { 'content-type': 'application/json' }
      const init = { method: 'POST', headers, body: JSON.stringify(note) }
      return (await (await request(at(run, '/notes'), init)).json()) as RunNote
    },
    regrade: async (run) => {
      const response = await request(at(run, '/regrade'), { method: 'POST' })
      return (await response.json()) as RegradeAnswer
    },
    follow(run, onOpen, onUpdate) {
      const stop = new AbortController()
      const { signal } = stop
      const read = async (): Promise<void> => {
        const response = await request(at(run, '/events'), { signal })
        onOpen()
        for await (const update of updatesIn(response)) onUpdate(update)
      }
      void followWithRetries(read, signal, onOpen)
      return () => stop.abort()
    },
  }
}

function at(run: string, what: string): string {
  return `api/runs/${encodeURIComponent(run)}${what}`
}

/** Connects again to a server that was unreachable, but not to one that refuses the request. */
async function followWithRetries(
  read: () => Promise<void>,
  signal: AbortSignal,
  onRefused: () => void,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await read()
    } catch (error) {
      if (error instanceof RefusedRequest) {
        onRefused()
        return
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** The data of server-sent events. An EventSource cannot carry the bearer; a token in a URL is logged. */
async function* updatesIn({ body }: Response): AsyncGenerator<LiveUpdate, void, undefined> {
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    text += value
    const events = text.split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6)) as LiveUpdate
    }
  }
}

/**
 * Reads the token from the fragment, which browsers do not send, and removes it from the address bar. It is
 * stored for this origin, so that a row can be opened in another tab.
 */
function takeToken(): string {
  const key = 'token'
  const [, given, rest = ''] = /^#token=([\w-]+)(.*)$/.exec(location.hash) ?? []
  if (given === undefined) return localStorage.getItem(key) ?? ''
  localStorage.setItem(key, given)
  history.replaceState(null, '', `${location.pathname}#${rest || '/'}`)
  return given
}
