import { OsmosisError } from '@osmosis/core'
import type { RolloutEnd, RolloutRequest } from '@osmosis/runtime'
import { untilAborted } from '@osmosis/core/http'
import { silentLogger, type Logger } from '@osmosis/server'
import { lockName, type ProcessLock } from '@osmosis/server/protocols'

import type { TrainerLink, TrainerTask } from '../trainer-link.ts'
import { WakeUp } from '../wake-up.ts'
import { callsWithoutId, rewardsOf, withoutRepeatedIds } from './sample-rewards.ts'
import { TrinityExplorer } from './trinity-explorer.ts'
import { TrinityJournal, type CallReward, type RunIdentity } from './trinity-journal.ts'

/** One row of a dataset, as `readDataset` of `@osmosis/eval` gives it. */
export type TrinityRow = Pick<RolloutRequest, 'initialMessages' | 'label' | 'metadata'>

/** Options of `trinity`. */
export interface TrinityOptions {
  /** Where the explorer of Trinity-RFT serves. */
  readonly url: string
  readonly dataset: readonly TrinityRow[]
  /** How often each row is run in an epoch; its attempts are a group. At least 1. */
  readonly attempts: number
  /** How many rows are handed to the training at a time. At least 1. */
  readonly groupsPerCommit: number
  /** How often the dataset is gone through. Default: 1. */
  readonly epochs?: number | undefined
  /**
   * Where it is kept how far the run has come, so that the next start continues from there. Default: nowhere;
   * each start begins with the first row.
   */
  readonly journalFile?: string | undefined
  /** What the ids of the run's rollouts begin with. Default: random, or what the journal says. */
  readonly runName?: string | undefined
  /** Settings of model calls, such as `temperature`; they win over the agent's. */
  readonly body?: Readonly<Record<string, unknown>> | undefined
  /** How long a workflow may take. Seconds; default 3600, null for any time. */
  readonly agentTimeoutSeconds?: number | null | undefined
  /** How long a grader may take. Seconds; default 600, null for any time. */
  readonly graderTimeoutSeconds?: number | null | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
}

interface Attempt {
  /** Of its group, counted over all epochs, from 0. */
  readonly group: number
  /** From 1. */
  readonly attempt: number
  readonly isSecondTry: boolean
}

/** A group that is run. */
interface OpenGroup {
  /** What is told of each attempt; undefined while it has not ended. */
  readonly attempts: (readonly CallReward[] | undefined)[]
  left: number
}

/** Everything that is open while the link is. */
interface OpenRun {
  readonly journal: TrinityJournal
  readonly lock: ProcessLock
}

/** Endpoints that repeat ids do so soon: these are the latest ones. */
const mostUsedIds = 200_000

const everyFailure = ['timeout', 'validation_error', 'http_error', 'agent_error'] as const

/** See `trinity`. */
export class TrinityLink implements TrainerLink {
  readonly name: string
  readonly takesStepRewards = true
  readonly #options: TrinityOptions
  readonly #identity: RunIdentity
  readonly #logger: Logger
  readonly #explorer: TrinityExplorer
  readonly #groups: number
  #run: OpenRun | undefined
  #modelName = ''
  /** Of the batch: what has not been handed out yet. */
  #queue: Attempt[] = []
  readonly #handedOut = new Map<string, Attempt>()
  readonly #open = new Map<number, OpenGroup>()
  /** The first group behind the batch; that of the first one begins where commits end. */
  #batchEnd = 0
  readonly #usedIds = new Set<string>()
  /** Aborted while the worker is ending. */
  #ending: AbortSignal | undefined
  #failure: { readonly error: unknown } | undefined
  readonly #changed = new WakeUp()

  /** @throws OsmosisError with code `invalid_config` for a URL that is none */
  constructor(options: TrinityOptions, identity: RunIdentity) {
    const { url, dataset, epochs = 1, logger = silentLogger } = options
    this.#options = options
    this.#identity = identity
    this.#logger = logger
    this.#explorer = new TrinityExplorer(url, logger)
    this.#groups = dataset.length * epochs
    this.name = `Trinity at ${this.#explorer.url}`
  }

  async claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[] | null> {
    this.#ending = signal
    const { journal } = (this.#run ??= await this.#begin(free))
    while (!signal.aborted) {
      if (this.#failure) throw this.#failure.error
      if (this.#queue.length > 0) return this.#queue.splice(0, free).map((next) => this.#task(next))
      if (this.#open.size === 0) {
        if (journal.committed >= this.#groups) return null
        await this.#beginBatch(journal, signal)
      } else {
        await untilAborted(signal, async () => this.#changed.next).catch(() => {})
      }
    }
    return []
  }

  /** Safe here: calls without a reward are never trained. */
  async retry(task: TrainerTask, end: RolloutEnd): Promise<TrainerTask | null> {
    const attempt = this.#handedOut.get(task.key)
    if (end.kind !== 'failed' || attempt === undefined || attempt.isSecondTry) return null
    if (end.category === 'http_error') await this.#untilThere()
    return this.#task({ ...attempt, isSecondTry: true })
  }

  /** An explorer that is away for some minutes would cost each attempt both of its tries. */
  async #untilThere(): Promise<void> {
    const signal = this.#ending ?? AbortSignal.abort()
    try {
      this.#modelName = await untilAborted(signal, async () => this.#explorer.modelName(signal))
    } catch {
      // The worker is ending, or the second try will tell what is wrong.
    }
  }

  async complete(task: TrainerTask, end: RolloutEnd): Promise<void> {
    const attempt = this.#handedOut.get(task.key)
    const open = attempt && this.#open.get(attempt.group)
    if (!this.#run || !attempt || !open) return
    this.#handedOut.delete(task.key)
    if (this.#isInterrupted(end)) return
    open.attempts[attempt.attempt - 1] = this.#rewards(task, end)
    open.left -= 1
    if (open.left > 0) return
    try {
      await this.#groupEnded(this.#run.journal, attempt.group, open)
    } catch (error) {
      this.#failure ??= { error }
      throw error
    } finally {
      this.#changed.now()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const run = this.#run
    this.#run = undefined
    await this.#explorer.close()
    await run?.journal.close()
    await run?.lock.release()
  }

  /** @throws OsmosisError with code `invalid_config` */
  async #begin(free: number): Promise<OpenRun> {
    const { attempts, journalFile, runName } = this.#options
    if (free < attempts) {
      throw new OsmosisError(
        'invalid_config',
        `A group of ${attempts} attempts has to be run concurrently, and the worker runs ${free}: raise its concurrency to ${attempts} or more.`,
      )
    }
    const { url } = this.#explorer
    const inUse = `Another worker of this machine trains with the explorer at ${url}, and its commits would take half of our groups. Stop one of them.`
    const lock = await lockName(`trinity ${url}`, inUse)
    try {
      const journal = await TrinityJournal.open(journalFile, this.#identity, runName)
      this.#logStart(journal)
      return { lock, journal }
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async #beginBatch(journal: TrinityJournal, signal: AbortSignal): Promise<void> {
    const { attempts, groupsPerCommit } = this.#options
    // It may have been restarted, with another model.
    this.#modelName = await untilAborted(signal, async () => this.#explorer.modelName(signal))
    if (this.#batchEnd === 0) {
      await untilAborted(signal, async () => this.#explorer.assertTakesFeedback())
    }
    this.#batchEnd = Math.min(journal.committed + groupsPerCommit, this.#groups)
    for (let group = journal.committed; group < this.#batchEnd; group += 1) {
      if (journal.ended.has(group)) continue
      this.#open.set(group, { attempts: Array.from({ length: attempts }), left: attempts })
      for (let attempt = 1; attempt <= attempts; attempt += 1) {
        this.#queue.push({ group, attempt, isSecondTry: false })
      }
    }
    // A former start has run all of it, and was ended before its commit.
    if (this.#open.size === 0) await untilAborted(signal, async () => this.#commit(journal))
  }

  #task(attempt: Attempt): TrainerTask {
    const { dataset, attempts: size, body } = this.#options
    const { agentTimeoutSeconds = 3600, graderTimeoutSeconds = 600 } = this.#options
    const row = dataset[attempt.group % dataset.length]
    if (row === undefined) throw new RangeError(`there is no row for group ${attempt.group}`)
    const groupId = `${this.#runName}-${this.#taskId(attempt.group)}`
    const key = `${groupId}-${attempt.attempt}`
    this.#handedOut.set(key, attempt)
    const request: RolloutRequest = {
      rolloutId: attempt.isSecondTry ? `${key}-again` : key,
      initialMessages: row.initialMessages,
      label: row.label,
      metadata: row.metadata,
      chatCompletionsUrl: `${this.#explorer.url}/v1`,
      apiKey: undefined,
      wire: { stream: false, model: this.#modelName, body },
      group: { id: groupId, attempt: attempt.attempt, size },
      retriedAfter: attempt.isSecondTry ? [] : everyFailure,
      agentTimeoutSeconds,
      graderTimeoutSeconds,
      grade: true,
    }
    return { key, request }
  }

  /** Each start has a name of its own: what a former one began may still be known somewhere by its ids. */
  get #runName(): string {
    const { name = '', starts = 1 } = this.#run?.journal ?? {}
    return starts === 1 ? name : `${name}.${starts}`
  }

  /** The epoch and the row, from 0. */
  #taskId(group: number): string {
    const { length } = this.#options.dataset
    return `${Math.floor(group / length)}-${group % length}`
  }

  /** The worker is ending, so the group stays open: the next start runs it again. */
  #isInterrupted(end: RolloutEnd): boolean {
    if (end.kind === 'cancelled') return end.by === 'shutdown'
    // A second try would have followed, and what it asked may have been told to end as well.
    return end.kind === 'failed' && this.#ending?.aborted === true
  }

  #rewards({ request: { rolloutId } }: TrainerTask, end: RolloutEnd): readonly CallReward[] {
    const nameless = callsWithoutId(end)
    if (nameless > 0) {
      const line = { rollout_id: rolloutId, calls: nameless }
      this.#logger.error(line, 'answers of the model have no id: they cannot be rewarded')
    }
    const rewards = rewardsOf(end)
    if (end.kind === 'rewarded' && rewards.length === 0 && nameless === 0) {
      const line = { rollout_id: rolloutId, samples: [...end.samples.keys()] }
      this.#logger.error(
        line,
        'a rewarded rollout has no model calls of its samples: nothing of it is trained',
      )
    }
    return rewards
  }

  async #groupEnded(
    journal: TrinityJournal,
    group: number,
    { attempts }: OpenGroup,
  ): Promise<void> {
    await journal.groupEnded({ group, attempts: attempts.map((calls) => calls ?? []) })
    // The last one is open until the commit is done, so that no batch begins before.
    if (this.#open.size === 1) await this.#commit(journal)
    this.#open.delete(group)
  }

  /** Everything in here may be repeated by the next start: rewards that were told are ignored. */
  async #commit(journal: TrinityJournal): Promise<void> {
    const ended = [...journal.ended.values()].filter(({ group }) => group < this.#batchEnd)
    const { groups, repeated } = withoutRepeatedIds(ended, (id) => this.#usedIds.has(id))
    if (repeated.size > 0) {
      const line = { calls: repeated.size, such_as: [...repeated][0] }
      this.#logger.error(
        line,
        'the model gave several answers the same id: Trinity cannot tell these calls apart, and none of them is trained',
      )
    }
    const figures = { groups: groups.length, attempts: 0, calls: 0 }
    const rewarded = groups.flatMap(({ group, attempts }) =>
      attempts.map(async (rewards, index) => {
        if (rewards.length > 0) figures.attempts += 1
        for (const calls of rewards) {
          for (const id of calls.ids) this.#remember(id)
          figures.calls += calls.ids.length
          await this.#explorer.reward(this.#taskId(group), index + 1, calls)
        }
      }),
    )
    await Promise.all(rewarded)
    await this.#explorer.commit()
    await journal.batchCommitted(this.#batchEnd)
    const line = { ...figures, committed: this.#batchEnd, of: this.#groups }
    this.#logger.info(line, 'groups were committed')
  }

  #remember(id: string): void {
    this.#usedIds.add(id)
    const [oldest = id] = this.#usedIds
    if (this.#usedIds.size > mostUsedIds) this.#usedIds.delete(oldest)
  }

  #logStart({ starts, committed }: TrinityJournal): void {
    const { journalFile } = this.#options
    if (journalFile === undefined) {
      this.#logger.warn(
        {},
        'without a journal, each start of this worker begins with the first row',
      )
    } else if (committed >= this.#groups) {
      const line = { journal: journalFile, groups: this.#groups }
      this.#logger.warn(line, 'all groups have been committed: delete the journal to train again')
    } else if (starts > 1) {
      const line = { journal: journalFile, committed, of: this.#groups }
      this.#logger.info(line, 'resuming where the last start ended')
    }
  }
}
