import { appendFileSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { recordingLogger, temporaryFolder } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { Outbox } from '../src/delivery/outbox.ts'
import {
  acceptanceOf,
  callbackOf,
  foundAfterKill,
  largestFolder,
  liveThrough,
  openOutbox,
} from './outbox-of-test.ts'

it('ends a record whose step is longer than the longest string, without a contradictory outcome', async () => {
  const folder = await temporaryFolder()
  await using first = await openOutbox(folder)
  const delivered = await first.outbox.accept(acceptanceOf('delivered'))
  const body = '\u0001'.repeat(90_000_000)
  await delivered.store(callbackOf('delivered', 'completion', body), [])
  expect(first.log).toMatchObject([{ message: 'outbox is out of date: Invalid string length' }])
  expect(await foundAfterKill(folder)).toStrictEqual({})
})

const end = (key: string): string =>
  JSON.stringify({ key, digest: 'digest', answer: '{}', at: 1_700_000_000_000 })

it('the list of ended rollouts is read although it is longer than the longest string', async () => {
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
})

it('the folder stays small while one rollout outlives 25,000 others and remains complete', async () => {
  expect(await largestFolder(25_000)).toBeLessThan(14 * 1024 * 1024)
})

it('the folder has few files and a complete rollout after more than a hundred processes', async () => {
  const { files, bytes } = await liveThrough(150)
  expect(files).toBeLessThan(30)
  expect(bytes).toBeLessThan(100_000)
})
