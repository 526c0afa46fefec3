// @module-tag nightly
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { createRun, itemKey, openRun, resumeRun, type RunReader } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'
import { itemOf } from './runs.ts'

async function found(reader: RunReader, text: string): Promise<string[]> {
  const keys: string[] = []
  for await (const event of reader.search(text)) keys.push(itemKey(event))
  return keys
}

it('starts another segment when one is full', async () => {
  const store = await createRun({
    outputRoot: await temporaryFolder(),
    manifest: madeManifest(),
  })
  const text = 'x'.repeat(2 ** 20)
  const events = await Promise.all(
    Array.from({ length: 70 }, (_, row) => store.commit(itemOf(row, 0, text))),
  )
  await store.close()
  expect(await readdir(path.join(store.location, 'trajectories'))).toEqual([
    '0000.jsonl',
    '0001.jsonl',
  ])
  expect(
    new Set(
      events.map(
        ({ trajectory_place: trajectories, sample_place: samples }) =>
          `${trajectories?.[0]} ${samples?.[0]}`,
      ),
    ),
  ).toEqual(new Set(['0 0', '1 1']))
  const resumed = await resumeRun({ location: store.location })
  events.push(await resumed.commit(itemOf(70, 0, 'The last one.')))
  await resumed.close()
  expect(events.at(-1)?.trajectory_place?.[0]).toBe(1)
  const reader = await openRun(store.location)
  for (const event of events) {
    expect((await reader.trajectories(event)).state).toBe('found')
    expect((await reader.graded(event)).state).toBe('found')
  }
  expect(await found(reader, 'the LAST')).toEqual(['70.0'])
  expect(await found(reader, 'question 6')).toEqual(
    [6, ...Array.from({ length: 10 }, (_, index) => 60 + index)].map((row) => `${row}.0`),
  )
})
