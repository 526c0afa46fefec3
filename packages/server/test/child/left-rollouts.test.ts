import { readdir } from 'node:fs/promises'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { openPool, runRollout } from './pool-under-test.ts'

it('a reader that leaves before the grading ends the rollout in its worker, too', async () => {
  const parent = await temporaryFolder()
  const { pool } = await openPool({ args: ['works', parent] })
  const leave = runRollout(pool, 'open-folder', {}, {}, async ({ type }) => {
    if (type !== 'workflow') return
    expect(await readdir(parent)).toHaveLength(1)
    throw new Error('the reader leaves')
  })
  await expect(leave).rejects.toThrow('the reader leaves')
  await expect.poll(async () => readdir(parent)).toEqual([])
  const { grading } = await runRollout(pool, 'open-folder')
  expect(grading?.status).toBe('success')
})
