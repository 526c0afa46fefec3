import { rm } from 'node:fs/promises'
import { join } from 'node:path'

import { createRun, openRun } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { madeEvent, madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'
import { crash, inFlight } from './crashes.ts'
import { itemOf } from './runs.ts'

it(
  'loses and repeats nothing when its writers are killed at random moments',
  { tags: 'slow' },
  async () => {
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
  },
)

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
