import { GroupGrader, type GroupGraderClass, type GroupGraderContext } from '@osmosis/core'
import { expect, test } from 'vitest'

import { rowsOf, scriptedBackend, startExplorer, train } from './scripted-attempts.ts'

/** What a grader received of each group, in order. */
interface SeenGroup {
  readonly row: number
  readonly members: readonly number[]
  readonly failed: readonly number[]
}

function comparing(seen: SeenGroup[], judge: (ctx: GroupGraderContext) => void): GroupGraderClass {
  class Comparing extends GroupGrader {
    async gradeGroup(ctx: GroupGraderContext): Promise<void> {
      seen.push({
        row: (ctx.metadata as { row: number }).row,
        members: ctx.members.map(({ attempt }) => attempt),
        failed: ctx.failed.map(({ attempt }) => attempt),
      })
      judge(ctx)
    }
  }
  return Comparing
}

function byRank({ members }: GroupGraderContext): void {
  for (const member of members) member.setReward(member.attempt / members.length)
}

test('all attempts of a group are judged together, a second try among them, at the least concurrency', async () => {
  await using explorer = await startExplorer()
  const seen: SeenGroup[] = []
  const scripted = scriptedBackend(
    (row, attempt) => (row === 1 && attempt === 2 ? { end: 'throws', isFirstTry: true } : {}),
    { grader: comparing(seen, byRank), maxConcurrent: 1 },
  )
  const { summary } = await train(explorer, { scripted, dataset: rowsOf(3), concurrency: 3 })
  expect(summary).toMatchObject({ retried: 1, ends: { rewarded: 9 } })
  expect(seen).toEqual([0, 1, 2].map((row) => ({ row, members: [1, 2, 3], failed: [] })))
  const again = explorer.trained().filter(({ group }) => group === '0-1')
  expect(new Map(again.map(({ rolloutId, reward }) => [rolloutId, reward]))).toEqual(
    new Map([
      ['run-0-1-1', 1 / 3],
      ['run-0-1-2-again', 2 / 3],
      ['run-0-1-3', 1],
    ]),
  )
})

test('a group is judged without an attempt that failed twice', async () => {
  await using explorer = await startExplorer()
  const seen: SeenGroup[] = []
  const scripted = scriptedBackend(
    (row, attempt) => (row === 0 && attempt === 1 ? { end: 'throws' } : {}),
    { grader: comparing(seen, byRank) },
  )
  const { summary } = await train(explorer, { scripted, dataset: rowsOf(2), concurrency: 4 })
  expect(summary.ends).toMatchObject({ rewarded: 5, failed: 1 })
  expect(seen.find(({ row }) => row === 0)).toEqual({ row: 0, members: [2, 3], failed: [1] })
  const rewards = explorer.trained().filter(({ group }) => group === '0-0')
  expect(new Map(rewards.map(({ run, reward }) => [run, reward]))).toEqual(
    new Map([
      [2, 1],
      [3, 1.5],
    ]),
  )
})

test('trains nothing of a group whose grader throws', async () => {
  await using explorer = await startExplorer()
  const judge = (ctx: GroupGraderContext): void => {
    if ((ctx.metadata as { row: number }).row === 0) throw new Error('the judge has exited')
    byRank(ctx)
  }
  const scripted = scriptedBackend(() => ({}), { grader: comparing([], judge) })
  const { summary } = await train(explorer, { scripted, dataset: rowsOf(3) })
  expect(summary.ends).toMatchObject({ rewarded: 6, failed: 3 })
  expect(new Set(explorer.trained().map(({ group }) => group))).toEqual(new Set(['0-1', '0-2']))
  expect(explorer.trained()).toHaveLength(12)
})
