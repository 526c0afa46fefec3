import {
  logPage,
  page,
  refusal,
  type StandInAnswer,
  type StandInRequest,
} from './stand-in-request.ts'

/** A run that the stand-in has. */
export interface StandInRun {
  readonly id: string
  readonly name: string
  status: string
  readonly model: string
  readonly dataset: string
  readonly rollout: string
  /** Further fields of the run itself, such as `reward` of a training run. */
  readonly more: Readonly<Record<string, unknown>>
}

/** The time of every event. */
const at = '2026-11-21T10:00:00Z'

/** Evaluation runs or training runs of the stand-in. */
export class StandInRuns {
  readonly list: StandInRun[] = []
  readonly logs: unknown[] = []
  /** Without the status. */
  metrics: Record<string, unknown>
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
    this.metrics = { overview: { duration_ms: 5 }, ...(kind === 'training' && { metrics: [] }) }
  }

  add(name: string, changes: Partial<StandInRun> = {}): StandInRun {
    const id = `${this.#kind}-${this.list.length + 1}`
    const about = { model: 'Qwen/Qwen3', dataset: 'sums', rollout: 'echo', more: {} }
    const run = { id, name, status: 'running', ...about, ...changes }
    this.list.push(run)
    return run
  }

  answer(request: StandInRequest): StandInAnswer | undefined {
    const { method, path, query, body } = request
    const [, name, action, what] = path
    if (name === undefined) {
      const shown = this.list.map((one) => this.#listed(one))
      return method === 'GET' ? page(`${this.#kind}_runs`, shown, query) : this.#submit(body)
    }
    const run = this.list.find(({ id, name: named }) => id === name || named === name)
    if (!run) return refusal(404, `There is no run ${name}.`)
    if (method === 'GET') return this.#read(run, { name, action, query })
    const { id, name: called } = run
    if (action === 'stop') {
      run.status = 'stopped'
      return { body: { id, name: called, status: run.status } }
    }
    if (action === 'retry') {
      const retried = { status: 'pending', workflow_id: 'wf-2', retryable_samples: 3 }
      return { body: { id, name: called, ...retried, platform_url: this.#page(run) } }
    }
    return what === 'download-urls' && name === id ? this.#urls(run, body) : undefined
  }

  /** Serves the files of an evaluation run under their presigned URLs. */
  file(path: string): StandInAnswer {
    if (this.expiredOnce.delete(path)) return { status: 403, body: 'this URL has expired' }
    const content = this.files.get(path)
    return content === undefined ? { status: 404 } : { body: content }
  }

  #submit(body: StandInRequest['body']): StandInAnswer {
    this.submitted.push(body)
    const run = this.add(`${this.#kind}-run-${this.list.length + 1}`, { status: 'pending' })
    const { id, name, status } = run
    return { body: { id, name, status, created_at: at, platform_url: this.#page(run) } }
  }

  #read(
    run: StandInRun,
    { name, action, query }: { name: string; action: string | undefined; query: URLSearchParams },
  ): StandInAnswer | undefined {
    if (action === undefined) return { body: this.#detail(run) }
    if (action === 'logs') return logPage(this.logs, query)
    if (action === 'checkpoints') {
      return { body: { training_run_name: run.name, checkpoints: this.checkpoints } }
    }
    // The routes below accept only the id, not the name.
    if (name !== run.id) return undefined
    if (action === 'metrics') return { body: { status: run.status, ...this.metrics } }
    if (action !== 'samples') return undefined
    const files = [...this.files].map(([path, text]) => ({ path, size: Buffer.byteLength(text) }))
    return { body: { files, totals: { files: files.length } } }
  }

  #itself(run: StandInRun): Record<string, unknown> {
    const { id, name, status, more } = run
    return { id, name, status, created_at: at, platform_url: this.#page(run), ...more }
  }

  /** The form of a run in lists, in which the two kinds of runs have different field names. */
  #listed(run: StandInRun): Record<string, unknown> {
    const { model, dataset, rollout } = run
    const isEval = this.#kind === 'eval'
    return {
      ...this.#itself(run),
      model: { id: 'model-1', [isEval ? 'name' : 'model_name']: model },
      dataset: { id: 'dataset-1', [isEval ? 'name' : 'file_name']: dataset },
      rollout: { id: 'rollout-1', name: rollout },
    }
  }

  #detail(run: StandInRun): Record<string, unknown> {
    const { model, dataset, rollout } = run
    return {
      [`${this.#kind}_run`]: this.#itself(run),
      ...(this.#kind === 'training' && { model: { id: 'model-1', name: model } }),
      dataset: { id: 'dataset-1', name: dataset },
      rollout: { id: 'rollout-1', name: rollout },
      config: { model_path: model },
    }
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
