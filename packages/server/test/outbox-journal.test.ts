import {
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  appendFileSync,
  truncateSync,
} from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { describe, expect, it, vi } from 'vitest'

import { storedRollouts, temporaryFolder, recordingLogger } from '../../../test/kit/index.ts'
import { Outbox } from '../src/delivery/outbox.ts'
import {
  acceptanceOf,
  callbackOf,
  copyFolder,
  found,
  foundAfterKill,
  largestFolder,
  liveThrough,
  openOutbox,
  type OpenOutbox,
} from './outbox-of-test.ts'

/** The operations of open files, to have them fail. */
async function fileOperations(): Promise<FileHandle> {
  const handle = await open(import.meta.filename)
  await handle.close()
  return Object.getPrototypeOf(handle) as FileHandle
}

const operations = await fileOperations()

function failing(code: string): Error {
  return Object.assign(new Error(`${code}: the disk fails`), { code })
}

/** The next write is incomplete. */
function writeHalfOnce(): void {
  const { writeFile } = operations // oxlint-disable-line typescript/unbound-method -- called with its handle
  vi.spyOn(operations, 'writeFile').mockImplementationOnce(async function half(
    this: FileHandle,
    bytes,
  ) {
    const whole = bytes as Buffer
    await writeFile.call(this, whole.subarray(0, Math.floor(whole.length / 2)))
    throw failing('ENOSPC')
  } as typeof writeFile)
}

/** The file with this text; its name is the outbox's own affair. */
function fileWith(folder: string, text: string): string {
  const files = readdirSync(folder).map((name) => path.join(folder, name))
  const match = files.find((file) => readFileSync(file, 'utf8').includes(text))
  if (match === undefined) throw new Error(`no file has ${text}`)
  return match
}

/** Expects that an outbox has logged one damaged file. Returns where it keeps the file when it is closed. */
function expectKept({ log }: OpenOutbox, file: string): string {
  const message = 'the file cannot be read completely; it is kept'
  const kept_as = expect.any(String) as string
  expect(log).toStrictEqual([{ level: 'error', message, fields: { file, kept_as } }])
  return String(log[0]?.fields?.['kept_as'])
}

const interrupted = ['completion interrupted']

describe('a group that cannot be written', () => {
  const failures = {
    'is written in part': writeHalfOnce,
    'cannot be synced': () =>
      vi.spyOn(operations, 'datasync').mockRejectedValueOnce(failing('EIO')),
  }
  it.each(Object.entries(failures))(
    '%s: none of its rollouts is accepted, then or later',
    async (_, fail) => {
      const folder = await temporaryFolder()
      await using first = await openOutbox(folder)
      await first.outbox.accept(acceptanceOf('before'))
      fail()
      const group = Array.from({ length: 50 }, (__, n) =>
        first.outbox.accept(acceptanceOf(`r${n}`)),
      )
      const refused = (await Promise.allSettled(group)).filter(
        ({ status }) => status === 'rejected',
      )
      expect(refused).toHaveLength(50)
      expect(await foundAfterKill(folder)).toStrictEqual({ before: interrupted })

      await first.outbox.accept(acceptanceOf('after'))
      expect(await foundAfterKill(folder)).toStrictEqual({
        before: interrupted,
        after: interrupted,
      })
      expect(first.outbox.count).toBe(2)
    },
  )

  it('remains refused when it cannot even be rolled back, after the disk accepts writes again', async () => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    vi.spyOn(operations, 'datasync').mockRejectedValueOnce(failing('EIO'))
    vi.spyOn(operations, 'truncate').mockRejectedValueOnce(failing('EIO'))
    await expect(first.outbox.accept(acceptanceOf('refused'))).rejects.toThrow('EIO')
    expect(first.log).toMatchObject([
      {
        level: 'error',
        message: 'a failed write cannot be rolled back: EIO: the disk fails',
      },
    ])
    await first.outbox.accept(acceptanceOf('after'))
    expect(await foundAfterKill(folder)).toStrictEqual({ after: interrupted })
  })

  it.each(Object.entries(failures))('%s: a step in it takes its record out', async (_, fail) => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    const [delivered, other] = await Promise.all([
      first.outbox.accept(acceptanceOf('delivered')),
      first.outbox.accept(acceptanceOf('other')),
    ])
    fail()
    await delivered.store(callbackOf('delivered', 'completion', 'success'), [])
    expect(await foundAfterKill(folder)).toStrictEqual({ other: interrupted })
    // What follows is not written, and contradicts nothing.
    await delivered.store(callbackOf('delivered', 'grader', 'reward'), [])
    await other.store(callbackOf('other', 'completion', 'success'), [])
    expect(await foundAfterKill(folder)).toStrictEqual({ other: ['completion success'] })
  })

  it('does not end records that only have notes in it', async () => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    const record = await first.outbox.accept(acceptanceOf('noted'))
    const callback = callbackOf('noted', 'completion', 'success')
    await record.store(callback, [callbackOf('noted', 'grader', 'interrupted')])
    writeHalfOnce()
    await record.settle(callback, 'acknowledged')
    const again = ['completion success', 'grader interrupted']
    expect(await foundAfterKill(folder)).toStrictEqual({ noted: again })
    await record.store(callbackOf('noted', 'grader', 'reward'), [])
    const whole = ['completion success', 'grader reward']
    expect(await foundAfterKill(folder)).toStrictEqual({ noted: whole })
  })
})

it('ends a record on a disk that stays full', async () => {
  const folder = await temporaryFolder()
  await using first = await openOutbox(folder)
  const delivered = await first.outbox.accept(acceptanceOf('delivered'))
  const removed = await first.outbox.accept(acceptanceOf('removed'))
  const full = vi.spyOn(operations, 'writeFile').mockRejectedValue(failing('ENOSPC'))
  await delivered.store(callbackOf('delivered', 'completion', 'success'), [])
  await removed.remove()
  expect(await foundAfterKill(folder)).toStrictEqual({})
  full.mockRestore()
})

describe('the list of ended rollouts', () => {
  const end = (key: string): string =>
    JSON.stringify({ key, digest: 'digest', answer: '{}', at: 1_700_000_000_000 })

  it('is written again after its file was removed', async () => {
    const folder = await temporaryFolder()
    const file = path.join(folder, 'ended.jsonl')
    writeFileSync(file, Array.from({ length: 10_000 }, (_, n) => `\n${end(`r${n}`)}`).join(''))
    await using first = await openOutbox(folder)
    const record = await first.outbox.accept(acceptanceOf('next'))
    rmSync(file)
    const callback = callbackOf('next', 'completion', 'success')
    await record.store(callback)
    await record.settle(callback, 'acknowledged')
    await first.outbox.finish(record, undefined)
    expect(readFileSync(file, 'utf8')).toContain('"key":"next"')
    expect(await foundAfterKill(folder)).toStrictEqual({})
  })
})

describe('the folder', () => {
  it(
    'stays small while one rollout outlives 5,000 others and remains complete',
    { tags: 'slow' },
    async () => {
      expect(await largestFolder(5_000)).toBeLessThan(12 * 1024 * 1024)
    },
  )

  it('has few files and a complete rollout after many processes', async () => {
    const { files, bytes } = await liveThrough(40)
    expect(files).toBeLessThan(30)
    expect(bytes).toBeLessThan(100_000)
  })

  it('contains no key of a delivered rollout when the server has ended', async () => {
    const folder = await temporaryFolder()
    {
      await using first = await openOutbox(folder)
      await first.outbox.accept(acceptanceOf('running'))
      const delivered = await first.outbox.accept(acceptanceOf('delivered'))
      const callback = callbackOf('delivered', 'completion', 'success')
      await delivered.store(callback, [])
      await delivered.settle(callback, 'acknowledged')
      await first.outbox.finish(delivered, undefined)
    }
    const texts = readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'))
    expect(texts.join('')).not.toContain('key-of-delivered')
    expect(texts.join('')).toContain('key-of-running')
  })
})

it('loses only the rollout whose line cannot be read, and does not delete that line', async () => {
  const folder = await temporaryFolder()
  {
    await using first = await openOutbox(folder)
    const records = []
    for (const id of ['a', 'b', 'c', 'd']) records.push(await first.outbox.accept(acceptanceOf(id)))
    for (const record of records) {
      const { rolloutId } = record.acceptance
      await record.store(callbackOf(rolloutId, 'completion', 'success'), [])
      await record.store(callbackOf(rolloutId, 'grader', 'reward'), [])
    }
  }
  const file = fileWith(folder, 'key-of-a')
  const lines = readFileSync(file, 'utf8').split('\n')
  const at = (id: string, kind: string): number =>
    lines.findIndex(
      (line) => line.includes(`"idempotency_key":"${id}/${kind}"`) && line.includes('"callback"'),
    )
  // The id of its record can be read, nothing of it can be, or it is of no use.
  lines[at('b', 'completion')] = lines[at('b', 'completion')]?.slice(0, 100) ?? ''
  lines[at('c', 'completion')] = 'key-of-c \u0000\u0000'
  const garbled = lines.join('\n')
  writeFileSync(file, garbled)
  let kept: string
  {
    await using second = await openOutbox(folder)
    expect(second.records.map(({ acceptance }) => acceptance.rolloutId)).toStrictEqual(['a', 'd'])
    kept = expectKept(second, file)
  }
  expect(readFileSync(kept, 'utf8')).toBe(garbled)
  const reward = ['completion success', 'grader reward']
  expect(await found(folder)).toStrictEqual({ a: reward, d: reward })
  expect(await storedRollouts(folder)).toStrictEqual(['a', 'd'])
})

describe('a damaged journal is not deleted, and the log names it', () => {
  const damages: Readonly<Record<string, (journal: string) => string>> = {
    'has no line break left': (journal) => journal.replaceAll('\n', 'J'),
    'has another byte for its last line break': (journal) => journal.replace(/\n$/, 'J'),
    'has another byte for the line break behind the end of a rollout': (journal) =>
      journal.replace('"line":"over"}\n', '"line":"over"}J'),
    'has nothing but other bytes': (journal) => '\u0007'.repeat(journal.length),
    'has the acceptance that another version wrote': (journal) =>
      journal.replaceAll('"line":"accepted"', '"line":"admitted"'),
    'has a step that another version wrote': (journal) =>
      journal.replaceAll('"line":"callback"', '"line":"dispatch"'),
  }
  it.each(Object.entries(damages))('where it %s', async (_, damage) => {
    const folder = await temporaryFolder()
    const killed = await temporaryFolder({ 'notes.json': 'of somebody else' })
    {
      await using first = await openOutbox(folder)
      const over = await first.outbox.accept(acceptanceOf('over'))
      await over.remove()
      const pending = await first.outbox.accept(acceptanceOf('pending'))
      await pending.store(callbackOf('pending', 'completion', 'success'), [])
      // The state after a kill, because closing removes ended records.
      copyFolder(folder, killed)
    }
    const file = fileWith(killed, 'key-of-pending')
    const damaged = damage(readFileSync(file, 'utf8'))
    writeFileSync(file, damaged)
    let kept: string
    {
      await using second = await openOutbox(killed)
      expect(second.records).toStrictEqual([])
      kept = expectKept(second, file)
    }
    expect(readFileSync(kept, 'utf8')).toBe(damaged)
    await using third = await openOutbox(killed)
    expect(third.log).toStrictEqual([])
    expect(readFileSync(path.join(killed, 'notes.json'), 'utf8')).toBe('of somebody else')
  })
})

it(
  'ends a record whose step is longer than the longest string, without a contradictory outcome',
  { tags: 'nightly' },
  async () => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    const delivered = await first.outbox.accept(acceptanceOf('delivered'))
    const body = '\u0001'.repeat(90_000_000)
    await delivered.store(callbackOf('delivered', 'completion', body), [])
    expect(first.log).toMatchObject([{ message: 'outbox is out of date: Invalid string length' }])
    expect(await foundAfterKill(folder)).toStrictEqual({})
  },
)

const end = (key: string): string =>
  JSON.stringify({ key, digest: 'digest', answer: '{}', at: 1_700_000_000_000 })

it(
  'the list of ended rollouts is read although it is longer than the longest string',
  { tags: 'nightly' },
  async () => {
    const folder = await temporaryFolder()
    const file = path.join(folder, 'ended.jsonl')
    writeFileSync(file, `\n${end('first')}`)
    // Nothing is on the disk where nothing was written.
    for (let megabytes = 50; megabytes <= 550; megabytes += 50) {
      truncateSync(file, megabytes * 1024 * 1024)
      appendFileSync(file, `\n${end(`at ${megabytes} MiB`)}\n`)
    }
    const outbox = new Outbox(folder, recordingLogger([]))
    const { ended } = await outbox.open()
    await outbox.close()
    expect(ended.map(({ key }) => key).slice(-2)).toStrictEqual(['at 500 MiB', 'at 550 MiB'])
  },
)
