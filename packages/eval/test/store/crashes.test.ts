import { rm, readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { createRun, openRun } from '@osmosis/eval'
import { madeEvent, madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'
import { expect, it } from 'vitest'
import { osmosisErrorOf } from '../thrown-by.ts'

import { crash, inFlight, complete, writeWithin } from './crashes.ts'
import { itemOf } from './runs.ts'

it('loses and repeats nothing when its writers are killed at random moments', async () => {
  const report = await crash(await temporaryFolder(), 200, 2)
  expect(report).toEqual({
    kills: 2,
    started: expect.any(Number) as number,
    acknowledged: expect.any(Number) as number,
    lost: 0,
    twice: 0,
    unreadable: 0,
    events: 200,
  })
  expect(report.started).toBeLessThanOrEqual(200 + 2 * inFlight)
})

it('halts when a segment cannot be made', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  await rm(join(store.location, 'samples'), { recursive: true })
  const failed = await osmosisErrorOf(() => store.commit(itemOf(0, 0)))
  expect(failed.code).toBe('storage_error')
  expect(failed.message).toContain(
    `Cannot write to ${join(store.location, 'samples', '0000.jsonl')}: ENOENT`,
  )
  const refused = await osmosisErrorOf(() =>
    store.commit({ event: madeEvent(0, 1), trajectories: null, graded: null }),
  )
  expect(refused).toEqual(failed)
  await store.close()
  expect((await openRun(store.location)).events.size).toBe(0)
})

it(
  'loses and repeats nothing when its writers are killed at random moments',
  { tags: 'slow' },
  async () => {
    const report = await crash(await temporaryFolder(), 500, 6)
    expect(report).toEqual({
      kills: 6,
      started: expect.any(Number) as number,
      acknowledged: expect.any(Number) as number,
      lost: 0,
      twice: 0,
      unreadable: 0,
      events: 500,
    })
    expect(report.started).toBeLessThanOrEqual(500 + 6 * inFlight)
  },
)

it.each([
  // Room for several times what is in flight, so that something ends before the disk is full.
  ['segment', 8000, 2000, String.raw`(trajectories|samples)/0000\.jsonl`],
  ['journal', 0, 200, String.raw`events\.jsonl`],
])(
  'halts when the disk takes no more of a %s, and completes later',
  { tags: 'slow' },
  async (_, bytes, blocks, name) => {
    const outputRoot = await temporaryFolder()
    const rows = Array.from({ length: 500 }, (__, row) => ({ key: `${row}`, source_row: row }))
    const store = await createRun({ outputRoot, manifest: madeManifest({ n: 2, rows }) })
    await store.close()
    const { location } = store

    const output = await writeWithin(blocks, location, bytes)
    const textsOf = (what: string): string[] =>
      output.flatMap((line) => (line.startsWith(`${what} `) ? line.slice(what.length + 1) : []))
    // Every item in flight, and those that came after it, for one reason.
    expect(textsOf('failed')).toHaveLength(inFlight)
    const [reason, ...others] = new Set(textsOf('failed'))
    expect(others).toEqual([])
    expect(reason).toMatch(
      new RegExp(
        String.raw`^Cannot write to ${location}/${name}: EFBIG: .+\. \d+(\.\d)? \w+ are free in .+\. Items that have ended are stored; free some space and start the run again to complete it\.$`,
      ),
    )
    expect((await readFile(join(location, 'events.jsonl'), 'utf8')).endsWith('\n')).toBe(true)
    const reader = await openRun(location)
    expect(textsOf('ended').length).toBeGreaterThan(0)
    expect([...reader.events.keys()].toSorted()).toEqual(textsOf('ended').toSorted())

    await complete(location)
    await reader.refresh()
    expect(reader.events.size).toBe(1000)
    const states = reader.sortedEvents.map(async (event) => {
      const [said, saw] = [await reader.trajectories(event), await reader.graded(event)]
      return `${said.state} ${saw.state}`
    })
    expect(new Set(await Promise.all(states))).toEqual(new Set(['found found']))
  },
)
