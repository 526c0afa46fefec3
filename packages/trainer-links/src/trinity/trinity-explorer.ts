import { OsmosisError } from '@osmosis/core'
import type { Logger } from '@osmosis/server'

import { statusOf, TrainerClient, type TrainerRequest } from '../trainer-client.ts'
import type { CallReward } from './trinity-journal.ts'

/** A commit lasts as long as the explorer needs to pass on all calls. Milliseconds. */
const requestMs = 600_000

/** The serve API of Trinity-RFT. */
export class TrinityExplorer {
  readonly #client: TrainerClient
  readonly #logger: Logger
  readonly #closing = new AbortController()

  /** @throws OsmosisError with code `invalid_config` for an invalid URL */
  constructor(url: string, logger: Logger) {
    this.#client = new TrainerClient({ name: 'Trinity explorer', url, requestMs })
    this.#logger = logger
  }

  get url(): string {
    return this.#client.url
  }

  /** The only name under which the model answers. Waits until the explorer answers. */
  async modelName(signal: AbortSignal): Promise<string> {
    let tries = 0
    const onRetry = (error: unknown): void => {
      if (tries === 0) this.#logger.warn({ error }, 'the Trinity explorer does not answer yet')
      tries += 1
    }
    const answer = await this.#client.fetch({ method: 'GET', path: '/v1/models' }, signal, onRetry)
    const [model] = (answer as { data?: readonly { id?: unknown }[] } | null)?.data ?? []
    if (typeof model?.id === 'string') return model.id
    throw this.#notTrinity('its GET /v1/models names no model')
  }

  /**
   * Checks that this is an explorer by rewarding a call that does not exist. Every model server has the other
   * route, and the mistake would otherwise show only after a whole batch.
   */
  async assertTakesFeedback(): Promise<void> {
    await this.#post(
      '/feedback',
      feedbackBody('osmosis-check', 0, { ids: ['osmosis-check'], reward: 0 }),
    )
  }

  /** Rewards calls. May be repeated: the explorer ignores unknown ids and those with a reward. */
  async reward(taskId: string, runId: number, calls: CallReward): Promise<void> {
    try {
      await this.#post('/feedback', feedbackBody(taskId, runId, calls))
    } catch (error) {
      const status = statusOf(error)
      // Only these calls are refused; the others can still be rewarded.
      if (status !== 400 && status !== 422) throw error
      const line = { task_id: taskId, run_id: runId, calls: calls.ids.length, error }
      this.#logger.error(line, 'the Trinity explorer refused a reward: these calls are not trained')
    }
  }

  /** Passes all calls with a reward on to the training. */
  async commit(): Promise<void> {
    await this.#post('/commit', {})
  }

  async close(): Promise<void> {
    this.#closing.abort(new OsmosisError('protocol_error', 'the Trinity link was closed'))
    await this.#client.close()
  }

  async #post(path: string, body: object): Promise<void> {
    const request: TrainerRequest = { method: 'POST', path, body }
    if ((await this.#client.report(request)) === undefined)
      throw this.#notTrinity(`it has no ${path}`)
  }

  #notTrinity(why: string): OsmosisError {
    return new OsmosisError(
      'protocol_error',
      `${this.url} is not the explorer of Trinity-RFT in serve mode: ${why}.`,
    )
  }
}

function feedbackBody(taskId: string, runId: number, { ids, reward }: CallReward): object {
  return { task_id: taskId, run_id: runId, msg_ids: ids, reward }
}
