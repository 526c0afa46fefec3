import path from 'node:path'

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs, temporaryFolder } from '../../../test/kit/index.ts'
import type { OutboxRecord } from '../src/delivery/outbox-record.ts'
import { failingDisk, type FailingDisk } from './failing-disk.ts'
import {
  acceptanceOf,
  callbackOf,
  copyFolder,
  openOutbox,
  type OpenOutbox,
} from './outbox-of-test.ts'

/** What a process would do with a stored rollout. */
interface Found {
  readonly undelivered: readonly string[]
  readonly end: { json: string; at: number | undefined; reward: number | null } | undefined
  readonly fetched: boolean
}

function foundIn(records: readonly OutboxRecord[]): Record<string, Found> {
  return Object.fromEntries(
    records.map(({ acceptance, undelivered, end, fetched }): [string, Found] => [
      acceptance.rolloutId,
      {
        undelivered: undelivered.map(({ kind, body }) => `${kind} ${body}`),
        end: end && { json: end.json, at: end.at, reward: end.reward },
        fetched,
      },
    ]),
  )
}

/** A rollout, and what of it was written. */
interface Rollout {
  readonly id: string
  readonly isLeased: boolean
  record: OutboxRecord
  phase: 'accepted' | 'completed' | 'graded' | 'ended' | 'lost'
  arrived: Set<string>
  json: string | undefined
  at: number | undefined
  fetched: boolean
}

const noToken = Buffer.alloc(32).toString('base64')

/** An outbox over several processes, and what the next one has to find, from what was done and nothing else. */
class Model {
  readonly #parent: string
  readonly #disk: FailingDisk
  readonly #rollouts: Rollout[] = []
  #open: OpenOutbox
  #folder: string
  #made = 0

  private constructor(parent: string, folder: string, disk: FailingDisk, opened: OpenOutbox) {
    this.#parent = parent
    this.#folder = folder
    this.#disk = disk
    this.#open = opened
  }

  static async start(disk: FailingDisk): Promise<Model> {
    const parent = await temporaryFolder()
    const folder = path.join(parent, '0')
    return new Model(parent, folder, disk, await openOutbox(folder))
  }

  get #live(): Rollout[] {
    return this.#rollouts.filter(({ phase }) => phase !== 'ended' && phase !== 'lost')
  }

  get expected(): Record<string, Found> {
    return Object.fromEntries(
      this.#live.map(({ id, isLeased, phase, arrived, json, at, fetched }): [string, Found] => {
        const cut = phase === 'accepted' ? ['completion', 'grader'] : ['grader']
        const sent = { accepted: [], completed: ['completion'], graded: ['completion', 'grader'] }
        const whole = sent[phase as keyof typeof sent].filter((kind) => !arrived.has(kind))
        const rest = phase === 'graded' ? [] : cut
        const undelivered = isLeased
          ? []
          : [...whole.map((kind) => `${kind} whole`), ...rest.map((kind) => `${kind} cut`)]
        const end = json === undefined ? undefined : { json, at, reward: 1 }
        return [id, { undelivered, end, fetched }]
      }),
    )
  }

  /** Does one thing to one of the rollouts; some are not possible for it. */
  async act(name: keyof typeof acts, which: number): Promise<void> {
    await acts[name](this, this.#live[which % Math.max(1, this.#live.length)])
  }

  async accept(isLeased: boolean): Promise<void> {
    this.#made += 1
    const id = `r${this.#made}`
    const ifInterrupted = ['completion', 'grader'].map((kind) => callbackOf(id, kind, 'cut'))
    const record = await this.#open.outbox.accept({
      ...acceptanceOf(id),
      ...(isLeased ? { tokenDigest: noToken, ifInterrupted: [] } : { ifInterrupted }),
    })
    const arrived = new Set<string>()
    const none = { json: undefined, at: undefined, fetched: false }
    this.#rollouts.push({ id, isLeased, record, phase: 'accepted', arrived, ...none })
  }

  /** The next step: a callback, or the end of a lease. */
  async step(rollout: Rollout): Promise<void> {
    const { id, record } = rollout
    if (rollout.isLeased) {
      if (rollout.json !== undefined) return
      rollout.json = `{"of":"${id}"}`
      const end = { status: 'success', reward: 1, errorMessage: null } as const
      const [from, , to] = [
        Date.now(),
        await record.storeEnd({ ...end, json: rollout.json }),
        Date.now(),
      ]
      // Only the record knows the millisecond, and must not change it any more.
      rollout.at = (await this.found())[id]?.end?.at
      if (rollout.at === undefined) return
      expect(rollout.at).toBeGreaterThanOrEqual(from)
      expect(rollout.at).toBeLessThanOrEqual(to)
    } else if (rollout.phase === 'accepted') {
      await record.store(callbackOf(id, 'completion', 'whole'), [callbackOf(id, 'grader', 'cut')])
      rollout.phase = 'completed'
    } else if (rollout.phase === 'completed') {
      await record.store(callbackOf(id, 'grader', 'whole'), [])
      rollout.phase = 'graded'
    }
  }

  /** A callback arrives, or a result is fetched. */
  async arrive(rollout: Rollout): Promise<void> {
    const { id, record, phase, arrived } = rollout
    if (rollout.isLeased) {
      if (rollout.json === undefined) return
      await record.recordFetched()
      rollout.fetched = true
      return
    }
    if (phase === 'accepted') return
    const kind = arrived.has('completion') ? 'grader' : 'completion'
    if (kind === 'grader' && phase !== 'graded') return
    await record.settle(callbackOf(id, kind, 'whole'), 'acknowledged')
    arrived.add(kind)
  }

  async finish(rollout: Rollout): Promise<void> {
    const { isLeased, record, phase, arrived } = rollout
    const isOver = isLeased || (phase === 'graded' && arrived.size === 2)
    if (isLeased) await record.remove()
    else expect(await this.#open.outbox.finish(record, undefined)).toBe(isOver)
    if (isOver) rollout.phase = 'ended'
  }

  /** The next step of a rollout cannot be written; the process is killed before the disk has room again. */
  async loseAndKill(rollout: Rollout): Promise<void> {
    if (rollout.phase === 'graded' || rollout.json !== undefined) return
    this.#disk.isFull = true
    await (rollout.isLeased
      ? rollout.record.storeEnd({ status: 'success', reward: 1, errorMessage: null, json: '{}' })
      : rollout.record.store(callbackOf(rollout.id, 'lost', 'lost'), []))
    rollout.phase = 'lost'
    const killed = this.#copy()
    this.#disk.isFull = false
    await this.#open.outbox.close()
    await this.#start(killed)
  }

  /** Others come and go until segments have to be removed. */
  async churn(): Promise<void> {
    const answer = JSON.stringify('x'.repeat(1_200_000))
    for (let others = 0; others < 5; others += 1) {
      const other = await this.#open.outbox.accept({ ...acceptanceOf('other'), answer })
      await other.remove()
    }
  }

  async restart(): Promise<void> {
    await this.#open.outbox.close()
    await this.#start(this.#folder)
  }

  async kill(): Promise<void> {
    const killed = this.#copy()
    await this.#open.outbox.close()
    await this.#start(killed)
  }

  /** What the next process finds if this one is killed now. */
  async found(): Promise<Record<string, Found>> {
    await using next = await openOutbox(this.#copy())
    return foundIn(next.records)
  }

  async end(): Promise<void> {
    await this.#open.outbox.close()
  }

  #copy(): string {
    this.#made += 1
    const killed = path.join(this.#parent, String(this.#made))
    copyFolder(this.#folder, killed)
    return killed
  }

  async #start(folder: string): Promise<void> {
    this.#folder = folder
    this.#open = await openOutbox(folder)
    expect(foundIn(this.#open.records)).toEqual(this.expected)
    for (const rollout of this.#live) {
      const own = this.#open.records.find(({ acceptance }) => acceptance.rolloutId === rollout.id)
      if (own !== undefined) rollout.record = own
    }
  }
}

const acts = {
  accept: async (model: Model) => model.accept(false),
  lease: async (model: Model) => model.accept(true),
  step: async (model: Model, rollout?: Rollout) => rollout && model.step(rollout),
  arrive: async (model: Model, rollout?: Rollout) => rollout && model.arrive(rollout),
  finish: async (model: Model, rollout?: Rollout) => rollout && model.finish(rollout),
  lose: async (model: Model, rollout?: Rollout) => rollout && model.loseAndKill(rollout),
  churn: async (model: Model) => model.churn(),
  restart: async (model: Model) => model.restart(),
  kill: async (model: Model) => model.kill(),
}

type Act = keyof typeof acts
const frequent: Act[] = ['accept', 'accept', 'lease', 'step', 'step', 'step', 'arrive', 'arrive']
const act = fc.constantFrom<Act[]>(...frequent, ...frequent, ...(Object.keys(acts) as Act[]))

describe('the next process finds every unfinished rollout as it was left, and no other', () => {
  it('whatever was written, removed and compacted before', async () => {
    const disk = await failingDisk()
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(act, fc.nat(20)), { minLength: 10, maxLength: 40 }),
        async (all) => {
          const model = await Model.start(disk)
          for (const [name, which] of all) await model.act(name, which)
          expect(await model.found()).toEqual(model.expected)
          await model.end()
        },
      ),
      // Smaller examples of a failure take long to find.
      { numRuns: runs(20), interruptAfterTimeLimit: 30_000 },
    )
  })

  it.each<[string, Act[]]>([
    ['that was accepted', ['accept']],
    ['whose completion was sent', ['accept', 'step']],
    ['whose completion arrived', ['accept', 'step', 'arrive']],
    ['whose reward was sent', ['accept', 'step', 'arrive', 'step']],
    ['that is leased', ['lease']],
    ['whose leased result is stored', ['lease', 'step']],
    ['whose leased result was fetched', ['lease', 'step', 'arrive']],
  ])('one %s, after its segments were removed twice', async (_, before) => {
    const disk = await failingDisk()
    const model = await Model.start(disk)
    for (const name of before) await model.act(name, 0)
    for (const name of ['churn', 'kill', 'churn', 'restart'] as const) {
      await model.act(name, 0)
      expect(await model.found()).toEqual(model.expected)
    }
    // Where its lines are now, it can be struck out on a disk without room.
    for (const name of ['churn', 'lose'] as const) await model.act(name, 0)
    expect(await model.found()).toEqual(model.expected)
    await model.end()
  })
})
