import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'

import { expect } from 'vitest'

import {
  randomNumbers,
  recordingLogger,
  temporaryFolder,
  type LogLine,
} from '../../../test/kit/index.ts'
import type { OutboxRecord } from '../src/delivery/outbox-record.ts'
import { Outbox } from '../src/delivery/outbox.ts'
import type { Callback, OutboxAcceptance } from '../src/journal/outbox-lines.ts'

export function callbackOf(rolloutId: string, kind: string, body: string): Callback {
  const url = `http://controller/${kind}`
  const apiKey = `key-of-${rolloutId}`
  return { rolloutId, kind, url, apiKey, idempotencyKey: `${rolloutId}/${kind}`, body }
}

export function acceptanceOf(rolloutId: string): OutboxAcceptance {
  return {
    rolloutId,
    key: rolloutId,
    digest: 'digest',
    answer: '{}',
    ifInterrupted: [callbackOf(rolloutId, 'completion', 'interrupted')],
    tokenDigest: null,
  }
}

export interface OpenOutbox extends AsyncDisposable {
  readonly outbox: Outbox
  readonly records: readonly OutboxRecord[]
  readonly log: LogLine[]
}

export async function openOutbox(
  folder: string,
  lock: ConstructorParameters<typeof Outbox>[2] = {},
): Promise<OpenOutbox> {
  const log: LogLine[] = []
  const outbox = new Outbox(folder, recordingLogger(log), lock)
  const { records } = await outbox.open()
  return { outbox, records, log, [Symbol.asyncDispose]: async () => outbox.close() }
}

/** What the next process would send, by rollout, when this one was killed now. */
export async function foundAfterKill(folder: string): Promise<Record<string, string[]>> {
  const copy = await temporaryFolder()
  copyFolder(folder, copy)
  return found(copy)
}

export async function found(folder: string): Promise<Record<string, string[]>> {
  await using opened = await openOutbox(folder)
  return Object.fromEntries(
    opened.records.map(({ acceptance, undelivered }) => [
      acceptance.rolloutId,
      undelivered.map(({ kind, body }) => `${kind} ${body}`),
    ]),
  )
}

/** Copies the folder without its owner files, which belong to the original. */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const name of readdirSync(from)) {
    if (name.endsWith('.lock')) continue
    try {
      copyFileSync(path.join(from, name), path.join(to, name))
    } catch (error) {
      // A segment that is being deleted: what it had is in segments that were listed as well.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}

/** The maximum size of the folder while one rollout outlives this many others and remains complete. */
export async function largestFolder(others: number): Promise<number> {
  const folder = await temporaryFolder()
  await using first = await openOutbox(folder)
  const old = await first.outbox.accept(acceptanceOf('old'))
  await old.store(callbackOf('old', 'completion', 'success'), [])
  let largest = 0
  let next = 0
  const drive = async (): Promise<void> => {
    while (next < others) {
      next += 1
      const rolloutId = `r${next}`
      if (next % 250 === 0) largest = Math.max(largest, sizeOf(folder))
      const record = await first.outbox.accept(acceptanceOf(rolloutId))
      const callback = callbackOf(rolloutId, 'completion', 'x'.repeat(3000))
      await record.store(callback, [])
      await record.settle(callback, 'acknowledged')
      expect(await first.outbox.finish(record, undefined)).toBe(true)
    }
  }
  await Promise.all(Array.from({ length: 250 }, drive))
  expect(first.outbox.count).toBe(1)
  expect(await foundAfterKill(folder)).toStrictEqual({ old: ['completion success'] })
  await first.outbox.close()
  const texts = readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'))
  expect(texts.join('')).not.toContain('x'.repeat(500))
  return largest
}

/** The journal of a rollout that remains complete through this many processes. */
export async function liveThrough(processes: number): Promise<{ files: number; bytes: number }> {
  const random = randomNumbers(7)
  let folder = await temporaryFolder()
  const next = await temporaryFolder()
  {
    await using first = await openOutbox(folder)
    const old = await first.outbox.accept(acceptanceOf('old'))
    const completion = callbackOf('old', 'completion', 'success')
    await old.store(completion, [callbackOf('old', 'grader', 'interrupted')])
    await old.settle(completion, 'acknowledged')
  }
  for (let life = 0; life < processes; life += 1) {
    await using opened = await openOutbox(folder)
    const names = opened.records.map(({ acceptance }) => acceptance.rolloutId)
    expect(names[0]).toBe('old')
    expect(opened.records[0]?.undelivered).toMatchObject([{ body: 'interrupted' }])
    // Records that the last process did not handle have ended, as if they had been delivered.
    for (const record of opened.records.slice(1)) await record.remove()
    for (let n = random(4); n >= 0; n -= 1) await opened.outbox.accept(acceptanceOf(`r${n}`))
    if (random(2) === 0) continue
    // Killed: the next one has what is on the disk now.
    const killed = path.join(next, String(life))
    copyFolder(folder, killed)
    folder = killed
  }
  return { files: readdirSync(folder).length, bytes: sizeOf(folder) }
}

function sizeOf(folder: string): number {
  // Segments go while they are looked for.
  const sizes = readdirSync(folder).map(
    (name) => statSync(path.join(folder, name), { throwIfNoEntry: false })?.size ?? 0,
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
