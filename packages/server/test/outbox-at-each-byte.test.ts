// @module-tag slow
import { createHash } from 'node:crypto'
import { fstatSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { expect, it } from 'vitest'

import { recordingLogger, temporaryFolder } from '../../../test/kit/index.ts'
import type { OutboxRecord } from '../src/delivery/outbox-record.ts'
import { Outbox } from '../src/delivery/outbox.ts'
import type { Callback } from '../src/journal/outbox-lines.ts'

it('contradicts no delivered result, wherever in its files a process or its machine ended', async () => {
  expect(await endEverywhere(211)).toBeGreaterThan(300)
})

type Files = ReadonlyMap<string, Buffer>
type Kind = 'completion' | 'grader'

/** What was visible of a rollout. */
interface Seen {
  readonly fate: 'requested' | 'accepted' | 'refused' | 'lost' | 'ending' | 'over'
  /** Callbacks that may have been sent. */
  readonly sent: readonly Kind[]
  /** Those that may not be there any more, because they arrived. */
  readonly arrived: readonly Kind[]
}

/** A folder at one time, and what was visible by then. */
interface Moment {
  readonly seen: ReadonlyMap<string, Seen>
  /** What the next process finds when this one is killed. */
  readonly files: Files
  /** Its files after the machine lost its power. */
  readonly durable: Files
}

/** Records a folder before and after each operation on an open file. */
class Recording {
  readonly folder: string
  readonly moments: Moment[] = []
  readonly #seen = new Map<string, Seen>()
  /** Of files whose name may be lost. */
  readonly #contents = new Map<string, Buffer>()
  #durable = new Map<string, Buffer>()
  failing: string | undefined

  constructor(folder: string) {
    this.folder = folder
  }

  see(rolloutId: string, change: Partial<Seen>): void {
    const before = this.#seen.get(rolloutId) ?? { fate: 'requested', sent: [], arrived: [] }
    this.#seen.set(rolloutId, { ...before, ...change })
    this.look()
  }

  of(rolloutId: string): Seen {
    return this.#seen.get(rolloutId) ?? { fate: 'requested', sent: [], arrived: [] }
  }

  look(): void {
    const files = filesIn(this.folder)
    this.moments.push({ seen: new Map(this.#seen), files, durable: new Map(this.#durable) })
  }

  synced(fd: number): void {
    const { ino } = fstatSync(fd)
    const files = filesIn(this.folder)
    for (const [name, bytes] of files) {
      if (statSync(path.join(this.folder, name)).ino !== ino) continue
      if (this.#durable.has(name)) this.#durable.set(name, bytes)
      else this.#contents.set(name, bytes)
    }
    if (statSync(this.folder).ino !== ino) return
    const durable = [...files.keys()].map((name): [string, Buffer] => {
      return [name, this.#durable.get(name) ?? this.#contents.get(name) ?? Buffer.alloc(0)]
    })
    this.#durable = new Map(durable)
  }
}

/** Without the files of the folder's owner. */
function filesIn(folder: string): Map<string, Buffer> {
  const names = readdirSync(folder).filter((name) => !name.endsWith('.lock'))
  return new Map(names.map((name) => [name, readFileSync(path.join(folder, name))]))
}

const named = ['writeFile', 'write', 'truncate', 'datasync', 'sync'] as const

/** Records operations on files until it is called. */
async function record(recording: Recording): Promise<() => void> {
  const handle = await open(import.meta.filename)
  await handle.close()
  const prototype = Object.getPrototypeOf(handle) as Record<string, unknown>
  const originals = named.map((name) => [name, prototype[name]] as const)
  for (const [name, original] of originals) {
    prototype[name] = async function recorded(this: FileHandle, ...args: unknown[]) {
      recording.look()
      if (recording.failing === name) {
        recording.failing = undefined
        throw Object.assign(new Error('EIO: the disk fails'), { code: 'EIO' })
      }
      const result: unknown = await (original as (...all: unknown[]) => unknown).apply(this, args)
      if (name.endsWith('sync')) recording.synced(this.fd)
      recording.look()
      return result
    }
  }
  return () => void Object.assign(prototype, Object.fromEntries(originals))
}

/** A rollout as a server stores it in an outbox. */
class Rollout {
  readonly id: string
  readonly #recording: Recording
  record: OutboxRecord | undefined

  constructor(id: string, recording: Recording) {
    this.id = id
    this.#recording = recording
  }

  async accept(outbox: Outbox): Promise<void> {
    this.#recording.see(this.id, { fate: 'requested' })
    const ifInterrupted = [this.#callback('completion', 'cut'), this.#callback('grader', 'cut')]
    const identity = { rolloutId: this.id, key: this.id, digest: 'd', answer: '{}' }
    try {
      this.record = await outbox.accept({ ...identity, ifInterrupted, tokenDigest: null })
      this.#recording.see(this.id, { fate: 'accepted' })
    } catch {
      this.#recording.see(this.id, { fate: 'refused' })
    }
  }

  async send(kind: Kind): Promise<void> {
    const isStored = this.#recording.of(this.id).fate === 'accepted'
    const next = kind === 'completion' ? [this.#callback('grader', 'cut')] : []
    await this.record?.store(this.#callback(kind, 'real'), next)
    if (isStored)
      this.#recording.see(this.id, { sent: [...this.#recording.of(this.id).sent, kind] })
  }

  /** A step that cannot be written: it is delivered here, and the next process delivers nothing else. */
  async lose(): Promise<void> {
    this.#recording.see(this.id, { fate: 'ending' })
    await this.record?.store(this.#callback('grader', 'real'), [])
    this.#recording.see(this.id, { fate: 'lost' })
  }

  async arrive(kind: Kind): Promise<void> {
    const { arrived } = this.#recording.of(this.id)
    this.#recording.see(this.id, { arrived: [...arrived, kind] })
    await this.record?.settle(this.#callback(kind, 'real'), 'acknowledged')
  }

  async finish(outbox: Outbox): Promise<void> {
    if (this.record === undefined) return
    this.#recording.see(this.id, { fate: 'ending' })
    await outbox.finish(this.record, undefined)
    this.#recording.see(this.id, { fate: 'over' })
  }

  #callback(kind: Kind, body: 'real' | 'cut'): Callback {
    const idempotencyKey = `${this.id}/${kind}`
    return { rolloutId: this.id, kind, url: 'http://c', apiKey: null, idempotencyKey, body }
  }
}

async function openOutbox(folder: string): Promise<[Outbox, readonly OutboxRecord[]]> {
  const outbox = new Outbox(folder, recordingLogger([]))
  const { records } = await outbox.open()
  return [outbox, records]
}

const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g']

/** Three processes that end cleanly, so that segments are compacted. */
async function runThreeProcesses(recording: Recording): Promise<void> {
  const [a, b, c, d, e, f, g] = ids.map((id) => new Rollout(id, recording))
  if (!a || !b || !c || !d || !e || !f || !g) throw new Error('there are seven')
  const [first] = await openOutbox(recording.folder)
  await Promise.all([a, b, c].map(async (rollout) => rollout.accept(first)))
  await a.send('completion')
  recording.failing = 'datasync'
  await Promise.all([d.accept(first), b.lose()])
  await Promise.all([a.arrive('completion'), c.send('completion')])
  await a.send('grader')
  await a.arrive('grader')
  await a.finish(first)
  await first.close()

  const [second, records] = await openOutbox(recording.folder)
  expect(records.map(({ acceptance }) => acceptance.rolloutId)).toStrictEqual(['c'])
  c.record = records[0]
  await Promise.all([c.arrive('completion'), e.accept(second), f.accept(second)])
  await Promise.all([e.send('completion'), f.send('completion')])
  await e.arrive('completion')
  await e.send('grader')
  await second.close()

  const [third, left] = await openOutbox(recording.folder)
  for (const rollout of [c, e, f]) {
    rollout.record = left.find(({ acceptance }) => acceptance.rolloutId === rollout.id)
  }
  await Promise.all([c.send('grader'), g.accept(third)])
  await c.arrive('grader')
  // Nothing can be appended to end it with.
  recording.failing = 'writeFile'
  await f.lose()
  await Promise.all([c.finish(third), e.arrive('grader'), g.send('completion')])
  await third.close()
}

/** What the next process would deliver, by rollout. */
interface Undelivered {
  readonly undelivered: ReadonlyMap<string, readonly string[]>
  readonly records: number
}

/** Starts a process on files, once for the same ones. */
class NextProcesses {
  readonly #parent: string
  readonly #known = new Map<string, Undelivered>()

  constructor(parent: string) {
    this.#parent = parent
  }

  async on(files: Files): Promise<Undelivered> {
    const hash = createHash('sha256')
    for (const name of [...files.keys()].toSorted()) {
      const bytes = files.get(name) ?? Buffer.alloc(0)
      hash.update(`${name} ${bytes.length}\n`).update(bytes)
    }
    const key = hash.digest('hex')
    const found = this.#known.get(key) ?? (await this.#start(files, path.join(this.#parent, key)))
    this.#known.set(key, found)
    return found
  }

  async #start(files: Files, folder: string): Promise<Undelivered> {
    mkdirSync(folder)
    for (const [name, bytes] of files) writeFileSync(path.join(folder, name), bytes)
    const [outbox, records] = await openOutbox(folder)
    const undelivered = records.map((each): [string, string[]] => [
      each.acceptance.rolloutId,
      each.undelivered.map(({ kind, body }) => `${kind} ${body}`),
    ])
    await outbox.close()
    return { undelivered: new Map(undelivered), records: records.length }
  }
}

/** What the next process would deliver that contradicts what was visible. */
function contradictions(
  { undelivered, records }: Undelivered,
  { seen }: Moment,
  isKilled: boolean,
): string[] {
  const wrong: string[] = records === undelivered.size ? [] : ['one is there twice']
  for (const [id, { fate, sent, arrived }] of seen) {
    const said = undelivered.get(id)
    const isOver = fate === 'refused' || fate === 'lost' || (isKilled && fate === 'over')
    if (isOver && said !== undefined) wrong.push(`${id} is ${fate}, and delivers ${said.join()}`)
    if (isOver) continue
    if (fate === 'accepted' && said === undefined) wrong.push(`${id} is lost`)
    for (const kind of said === undefined ? [] : sent) {
      if (said?.includes(`${kind} cut`)) wrong.push(`${id} delivers another ${kind}`)
      const isThere = said?.includes(`${kind} real`) === true
      if (!isThere && !arrived.includes(kind)) wrong.push(`${id} keeps its ${kind} no more`)
    }
  }
  return wrong
}

/** Everything that may be on the disk between two moments: what was appended is there in part. */
function between({ files: before }: Moment, { files: after }: Moment, stride: number): Files[] {
  for (const [name, bytes] of after) {
    const had = before.get(name)?.length ?? 0
    if (bytes.length <= had + 1) continue
    const cuts: Files[] = []
    for (let end = had + 1; end < bytes.length; end += stride) {
      cuts.push(new Map(before).set(name, bytes.subarray(0, end)))
    }
    return [...cuts, new Map(before).set(name, bytes.subarray(0, -1))]
  }
  return []
}

/**
 * Ends a process everywhere in its files, and every `stride` bytes of what it writes; nothing that the
 * next one delivers contradicts what was delivered. Returns the number of checked places.
 */
async function endEverywhere(stride: number): Promise<number> {
  const recording = new Recording(await temporaryFolder())
  const stop = await record(recording)
  try {
    await runThreeProcesses(recording)
  } finally {
    stop()
  }
  recording.look()
  const { moments } = recording
  expect(Object.fromEntries(ids.map((id) => [id, recording.of(id).fate]))).toStrictEqual({
    a: 'over',
    b: 'lost',
    c: 'over',
    d: 'refused',
    e: 'accepted',
    f: 'lost',
    g: 'accepted',
  })
  const next = new NextProcesses(await temporaryFolder())
  let tried = 0
  const wrong = new Set<string>()
  for (const [n, moment] of moments.entries()) {
    const after = moments[n + 1]
    const states: [Files, boolean][] = [
      [moment.files, true],
      [moment.durable, false],
      ...(after === undefined ? [] : between(moment, after, stride)).map(
        (files): [Files, boolean] => [files, true],
      ),
    ]
    for (const [files, isKilled] of states) {
      tried += 1
      for (const what of contradictions(await next.on(files), moment, isKilled)) {
        wrong.add(`${n} ${isKilled ? 'killed' : 'without power'}: ${what}`)
      }
    }
  }
  expect([...wrong]).toStrictEqual([])
  return tried
}
