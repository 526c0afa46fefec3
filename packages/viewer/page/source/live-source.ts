import type { RunNote } from '@osmosis/eval/analysis'

import type { LiveUpdate, RegradeAnswer } from '../../src/wire.ts'
import type { Connection, Source } from './source.ts'

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
  const tokens = new Tokens()
  const watchers = new Set<(connection: Connection) => void>()
  let connection: Connection = 'live'
  // Whatever is asked for, its answer says whether the server is there.
  const report = (next: Connection): void => {
    if (next === connection) return
    connection = next
    for (const watcher of watchers) watcher(next)
  }
  const request = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${tokens.current()}`)
    const response = await fetch(path, { ...init, headers }).catch((error: unknown) => {
      if (init.signal?.aborted === true) throw error
      report('unreachable')
      throw new Error('The server of this page does not answer.', { cause: error })
    })
    report(response.status === 401 ? 'refused' : 'live')
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
    watch(onChange) {
      watchers.add(onChange)
      onChange(connection)
      return () => watchers.delete(onChange)
    },
    follow(run, onOpen, onUpdate) {
      const stop = new AbortController()
      const { signal } = stop
      const read = async (): Promise<void> => {
        const response = await request(at(run, '/events'), { signal })
        onOpen()
        for await (const update of updatesIn(response)) onUpdate(update)
      }
      // Where the run cannot be followed, reading it says why.
      void followWithRetries(read, signal, onOpen)
      return () => stop.abort()
    },
  }
}

function at(run: string, what: string): string {
  return `api/runs/${encodeURIComponent(run)}${what}`
}

/**
 * Connects again to a server that was unreachable, and to one that wants another token, which another tab may bring; but
 * not to one that refuses the request.
 */
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
        if (error.status !== 401) return
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

const key = 'token'

/**
 * The token of the link, which is in the fragment because browsers do not send that, and which is removed from the
 * address bar. It is stored for this origin, so that a row can be opened in another tab, and so that this page goes on
 * when the link of a server that was started again is opened in any tab.
 */
class Tokens {
  #own = ''

  constructor() {
    this.#take()
    // The page is not loaded again when only the fragment of its address changes. Whoever reads the address listens later.
    addEventListener('hashchange', () => this.#take())
  }

  current(): string {
    try {
      return localStorage.getItem(key) ?? this.#own
    } catch {
      return this.#own
    }
  }

  #take(): void {
    const [, given, rest = ''] = /^#token=([\w-]+)(.*)$/.exec(location.hash) ?? []
    if (given === undefined) return
    this.#own = given
    history.replaceState(null, '', `${location.pathname}#${rest || '/'}`)
    try {
      localStorage.setItem(key, given)
    } catch {
      // A browser may refuse to store anything; this tab has its token.
    }
  }
}
