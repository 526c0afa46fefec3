import {
  logPage,
  page,
  refusal,
  type StandInAnswer,
  type StandInRequest,
} from './stand-in-request.ts'

/** A run that the stand-in has. */
export type StandInRun = Record<string, unknown> & { id: string; name: string; status: string }

/** Evaluation runs or training runs of the stand-in. */
export class StandInRuns {
  readonly list: StandInRun[] = []
  readonly logs: unknown[] = []
  metrics: Record<string, unknown> = {}
  checkpoints: unknown[] = []
  /** Files of an evaluation run, by path. */
  readonly files = new Map<string, string>()
  /** Bodies of the runs that were submitted. */
  readonly submitted: Readonly<Record<string, unknown>>[] = []
  /** Download URLs that are refused with 403 once. */
  readonly expiredOnce = new Set<string>()
  readonly #kind: 'eval' | 'training'
  readonly #url: () => string

  constructor(kind: 'eval' | 'training', url: () => string) {
    this.#kind = kind
    this.#url = url
  }

  add(name: string, more: Record<string, unknown> = {}): StandInRun {
    const run = { id: `${this.#kind}-${this.list.length + 1}`, name, status: 'running', ...more }
    this.list.push(run)
    return run
  }

  answer(request: StandInRequest): StandInAnswer | undefined {
    const { method, path, query, body } = request
    const [, name, action, what] = path
    if (name === undefined) {
      return method === 'GET' ? page(`${this.#kind}_runs`, this.list, query) : this.#submit(body)
    }
    const run = this.list.find(({ id, name: named }) => id === name || named === name)
    if (!run) return refusal(404, `There is no run ${name}.`)
    if (method === 'GET') return this.#read(run, action, query)
    if (action === 'stop') return { body: { ...Object.assign(run, { status: 'stopped' }) } }
    if (action === 'retry') {
      const retried = { ...run, status: 'pending', workflow_id: 'wf-2', retryable_samples: 3 }
      return { body: { ...retried, platform_url: this.#page(run) } }
    }
    return what === 'download-urls' ? this.#urls(run, body) : undefined
  }

  /** What the URLs of an evaluation's files lead to. */
  file(path: string): StandInAnswer {
    if (this.expiredOnce.delete(path)) return { status: 403, body: 'this URL has expired' }
    const content = this.files.get(path)
    return content === undefined ? { status: 404 } : { body: content }
  }

  #submit(body: StandInRequest['body']): StandInAnswer {
    this.submitted.push(body)
    const run = this.add(`${this.#kind}-run-${this.list.length + 1}`, { status: 'pending' })
    const { id, name, status } = run
    const created = '2026-11-21T10:00:00Z'
    return { body: { id, name, status, created_at: created, platform_url: this.#page(run) } }
  }

  #read(
    run: StandInRun,
    action: string | undefined,
    query: URLSearchParams,
  ): StandInAnswer | undefined {
    if (action === undefined) return { body: { [`${this.#kind}_run`]: run } }
    if (action === 'logs') return logPage(this.logs, query)
    if (action === 'metrics') return { body: { status: run.status, ...this.metrics } }
    if (action === 'checkpoints') return { body: { checkpoints: this.checkpoints } }
    if (action !== 'samples') return undefined
    const files = [...this.files].map(([path, text]) => ({ path, size: Buffer.byteLength(text) }))
    return { body: { files, totals: { files: files.length } } }
  }

  #urls(run: StandInRun, { items }: StandInRequest['body']): StandInAnswer {
    const asked = items as { path: string }[]
    if (asked.length < 1 || asked.length > 500) return refusal(400, 'Ask for 1 to 500 files.')
    return {
      body: {
        items: asked.map(({ path }) => ({
          path,
          url: `${this.#url()}/run-files/${this.#kind}/${run.id}/${encodeURIComponent(path)}?X-Signature=planted-signature`,
        })),
        expires_in: 600,
      },
    }
  }

  #page({ id }: StandInRun): string {
    return `${this.#url()}/${this.#kind}-runs/${id}`
  }
}
