import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import type { ExecutionOutcome } from '@osmosis/server/execution'
import type { RolloutRequest } from '@osmosis/protocol'
import { untilAborted } from '@osmosis/core/http'
import { silentLogger, type Logger } from '@osmosis/server'
import { lockName, type ProcessLock } from '@osmosis/protocol/files'

import type { TrainerLink, TrainerTask } from '../trainer-link.ts'
import { WakeUp } from '../wake-up.ts'
import { callsWithoutId, rewardsOf, withoutRepeatedIds } from './sample-rewards.ts'
import { TrinityExplorer } from './trinity-explorer.ts'
import { TrinityJournal, type CallReward, type RunIdentity } from './trinity-journal.ts'

/** One row of a dataset, as `readDataset` of `@osmosis/eval` gives it. */
export type TrinityRow = Pick<RolloutRequest, 'initialMessages' | 'label' | 'metadata'>

/** Options of {@link trinity}. */
export interface TrinityOptions {
  /** Where the explorer of Trinity-RFT serves. */
  readonly url: string
  readonly dataset: readonly TrinityRow[]
  /** How often each row is executed per epoch; its attempts are a group. At least 1. */
  readonly attempts: number
  /** The number of groups per commit. At least 1. */
  readonly groupsPerCommit: number
  /** The number of passes over the dataset. Default: 1. */
  readonly epochs?: number | undefined
  /**
   * The file that stores the progress of the run, from which the next start resumes. Default: none; each
   * start begins with the first row.
   */
  readonly journalFile?: string | undefined
  /** The prefix of the run's rollout ids. Default: the name in the journal, or a random one. */
  readonly runName?: string | undefined
  /** Settings of model calls, such as `temperature`; they override the agent's. */
  readonly body?: Readonly<Record<string, unknown>> | undefined
  /** How long a workflow may take. Seconds; default 3600, null for any time. */
  readonly agentTimeoutSeconds?: number | null | undefined
  /** How long a grader may take. Seconds; default 600, null for any time. */
  readonly graderTimeoutSeconds?: number | null | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
}

interface Attempt {
  /** The number of its group over all epochs, from 0. */
  readonly group: number
  /** From 1. */
  readonly attempt: number
  readonly isSecondTry: boolean
}

/** A group whose attempts are executed. */
interface OpenGroup {
  /** The rewards of each attempt; undefined until it has ended. */
  readonly attempts: (readonly CallReward[] | undefined)[]
  left: number
}

/** What the link holds open after its first claim. */
interface OpenRun {
  readonly journal: TrinityJournal
  readonly lock: ProcessLock
}

/** How many of the latest ids are remembered; endpoints that repeat ids do so soon. */
const maxUsedIds = 200_000

const everyFailure = ['timeout', 'validation_error', 'http_error', 'agent_error'] as const

/**
 * Trains over a dataset with an explorer of Trinity-RFT in serve mode. Rows are executed in order, in groups of
 * attempts. Each sample's answers get its reward, and a batch is committed when all of its groups have ended.
 * A commit takes every call that has a reward, so rewards are sent right before it, and only one worker may
 * use an explorer.
 *
 * Calls without a reward are never trained, so a failed attempt is executed once more. A group that a restart
 * interrupted is executed again as a whole, because its attempts are compared with one another.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function trinity(options: TrinityOptions): TrainerLink {
  const { dataset, attempts, groupsPerCommit, epochs = 1 } = options
  for (const [name, value] of Object.entries({ attempts, groupsPerCommit, epochs })) {
    if (Number.isInteger(value) && value >= 1) continue
    throw new OsmosisError(
      'invalid_config',
      `${name} must be a whole number of at least 1, got ${value}.`,
    )
  }
  if (dataset.length === 0) throw new OsmosisError('invalid_config', 'The dataset has no rows.')
  return new TrinityLink(options, { digest: digestOf(dataset), rows: dataset.length, attempts })
}

class TrinityLink implements TrainerLink {
  readonly name: string
  readonly takesStepRewards = true
  readonly #options: TrinityOptions
  readonly #identity: RunIdentity
  readonly #logger: Logger
  readonly #explorer: TrinityExplorer
  readonly #groups: number
  #run: OpenRun | undefined
  #modelName = ''
  /** Outcomes of the batch that `complete` took, until it is committed. */
  #uncommitted = 0
  /** Attempts that the next start repeats with their groups. */
  #interrupted = 0
  /** Attempts of the batch that are not assigned yet. */
  #queue: Attempt[] = []
  readonly #assigned = new Map<string, Attempt>()
  readonly #open = new Map<number, OpenGroup>()
  /** The first group after the batch; 0 before the first batch. */
  #batchEnd = 0
  readonly #usedIds = new Set<string>()
  /** Aborted while the worker is ending. */
  #ending: AbortSignal | undefined
  #failure: { readonly error: unknown } | undefined
  readonly #changed = new WakeUp()

  /** @throws OsmosisError with code `invalid_config` for an invalid URL */
  constructor(options: TrinityOptions, identity: RunIdentity) {
    const { url, dataset, epochs = 1, logger = silentLogger } = options
    this.#options = options
    this.#identity = identity
    this.#logger = logger
    this.#explorer = new TrinityExplorer(url, logger)
    this.#groups = dataset.length * epochs
    this.name = `Trinity at ${this.#explorer.url}`
  }

  get held(): number {
    return this.#uncommitted + this.#interrupted
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
  async retry(task: TrainerTask, end: ExecutionOutcome): Promise<TrainerTask | null> {
    const attempt = this.#assigned.get(task.key)
    if (end.kind !== 'failed' || attempt === undefined || attempt.isSecondTry) return null
    if (end.category === 'http_error') await this.#untilReachable()
    return this.#task({ ...attempt, isSecondTry: true })
  }

  /** While the explorer is unreachable for some minutes, an attempt would use up both tries. */
  async #untilReachable(): Promise<void> {
    const signal = this.#ending ?? AbortSignal.abort()
    try {
      this.#modelName = await untilAborted(signal, async () => this.#explorer.modelName(signal))
    } catch {
      // The worker is ending, or the second try reports the error.
    }
  }

  async complete(task: TrainerTask, end: ExecutionOutcome): Promise<void> {
    const attempt = this.#assigned.get(task.key)
    const open = attempt && this.#open.get(attempt.group)
    if (!this.#run || !attempt || !open) return
    this.#assigned.delete(task.key)
    if (this.#isInterrupted(end)) {
      this.#interrupted += 1
      return
    }
    open.attempts[attempt.attempt - 1] = this.#rewards(task, end)
    open.left -= 1
    if (open.left > 0) {
      this.#uncommitted += 1
      return
    }
    try {
      const isCommitted = await this.#groupEnded(this.#run.journal, attempt.group, open)
      if (!isCommitted) this.#uncommitted += 1
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
    const why = `Another worker of this machine trains with the explorer at ${url}, and its commits would take half of our groups. Stop one of them.`
    const inUse = (): OsmosisError => new OsmosisError('invalid_config', why)
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
    // An earlier start executed the whole batch and ended before the commit.
    if (this.#open.size === 0) await untilAborted(signal, async () => this.#commit(journal))
  }

  #task(attempt: Attempt): TrainerTask {
    const { dataset, attempts: size, body } = this.#options
    const { agentTimeoutSeconds = 3600, graderTimeoutSeconds = 600 } = this.#options
    const row = dataset[attempt.group % dataset.length]
    if (row === undefined) throw new RangeError(`there is no row for group ${attempt.group}`)
    const groupId = `${this.#runName}-${this.#taskId(attempt.group)}`
    const key = `${groupId}-${attempt.attempt}`
    this.#assigned.set(key, attempt)
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

  /** Each start has its own name, because rollouts of an earlier start may still exist under their ids. */
  get #runName(): string {
    const { name = '', starts = 1 } = this.#run?.journal ?? {}
    return starts === 1 ? name : `${name}.${starts}`
  }

  /** The epoch and the row, from 0. */
  #taskId(group: number): string {
    const { length } = this.#options.dataset
    return `${Math.floor(group / length)}-${group % length}`
  }

  /** Whether the ending worker interrupted it: then the group stays open, and the next start repeats it. */
  #isInterrupted(end: ExecutionOutcome): boolean {
    if (end.kind === 'cancelled') return end.by === 'shutdown'
    // A second try would have followed; the endpoint may have been shut down with the worker.
    return end.kind === 'failed' && this.#ending?.aborted === true
  }

  #rewards({ request: { rolloutId } }: TrainerTask, end: ExecutionOutcome): readonly CallReward[] {
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
        'a rewarded rollout has no model calls in its samples: nothing of it is trained',
      )
    }
    return rewards
  }

  /** Resolves to whether its batch is committed. */
  async #groupEnded(
    journal: TrinityJournal,
    group: number,
    { attempts }: OpenGroup,
  ): Promise<boolean> {
    await journal.groupEnded({ group, attempts: attempts.map((calls) => calls ?? []) })
    // The last group stays open until the commit is done, so that no batch starts before.
    const isLast = this.#open.size === 1
    if (isLast) await this.#commit(journal)
    this.#open.delete(group)
    return isLast
  }

  /** The next start may repeat all of this: the explorer ignores rewards that it has. */
  async #commit(journal: TrinityJournal): Promise<void> {
    const ended = [...journal.ended.values()].filter(({ group }) => group < this.#batchEnd)
    const { groups, repeated } = withoutRepeatedIds(ended, (id) => this.#usedIds.has(id))
    if (repeated.size > 0) {
      const line = { calls: repeated.size, such_as: [...repeated][0] }
      this.#logger.error(
        line,
        'the model gave several answers the same id: Trinity cannot distinguish these calls, and none of them is trained',
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
    this.#uncommitted = 0
    const line = { ...figures, committed: this.#batchEnd, of: this.#groups }
    this.#logger.info(line, 'groups were committed')
  }

  #remember(id: string): void {
    this.#usedIds.add(id)
    const [oldest = id] = this.#usedIds
    if (this.#usedIds.size > maxUsedIds) this.#usedIds.delete(oldest)
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

function digestOf(dataset: readonly TrinityRow[]): string {
  const hash = createHash('sha256')
  for (const { initialMessages, label, metadata } of dataset) {
    hash.update(`${JSON.stringify([initialMessages, label, metadata])}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}
