import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { everywhere, inverse, placeOf, rewards, workspaceOfGroups } from './group-runs.ts'
import { run } from './in-process.ts'

it('an attempt that failed has no reward, and the others are graded without it', async () => {
  const { root, evaluate, events, output } = workspaceOfGroups()
  const { code } = await evaluate('--n 3', { FAILS: 'two 2' })
  expect(code).toBe(0)
  expect(rewards(events())).toStrictEqual({ ...everywhere(3), '1.2': null })
  const two = events().filter((event) => event.source_row_index === 1)
  expect(Object.fromEntries(two.map((event) => [placeOf(event), event.metrics]))).toStrictEqual({
    '1.1': { members: 2, failed: 1, missing: 0 },
    '1.2': {},
    '1.3': { members: 2, failed: 1, missing: 0 },
  })

  // A grading gets the stored attempts of each row.
  const file = path.join(root, 'inverse.ts')
  writeFileSync(file, inverse)
  const words = `eval regrade r -o ${output} --json --grader ${file}`.split(' ')
  expect(JSON.parse((await run(words, {}, root)).stdout)).toMatchObject({
    grader: 'InverseGrader',
    rollouts: 12,
    graded: 11,
    not_graded: { failed: ['1.2'], pending: [] },
    errors: [
      { rollout: '1.1', error: 'thrown by gradeGroup() at inverse.ts:5: a part of 3' },
      { rollout: '1.3', error: 'thrown by gradeGroup() at inverse.ts:5: a part of 3' },
    ],
  })

  // What failed is compared with the others again.
  const again = await evaluate('--retry-failed')
  expect(again.stderr).toContain(
    '  Run again  2 rollouts that had ended: the grader sees the attempts at a row together\n',
  )
  expect(rewards(events())).toStrictEqual(everywhere(3))
  expect(events()).toHaveLength(15)
})

describe('a grader of groups is refused', () => {
  it('for a trainer that gives no groups, or too small ones', async () => {
    const { root } = workspaceOfGroups()
    const refused = async (flags: string): Promise<string> => {
      const words = `worker rollouts/ranked/main.ts ${flags}`.split(' ')
      return (await run(words, { OSMOSIS_TRAINER_KEY: 'key' }, root)).stderr
    }
    expect(await refused('--agent-lightning http://127.0.0.1:1')).toBe(
      'error: RankGrader is a GroupGrader, which grades the attempts at a row together, and Agent Lightning at http://127.0.0.1:1 does not group rollouts: pass --group-column and --group-size, or use a Grader.\n',
    )
    const trinity = '--trinity http://127.0.0.1:1 --dataset data/words.jsonl --groups-per-commit 1'
    expect(await refused(`${trinity} --attempts 1`)).toContain(
      'there are 1 of them, and it needs 2 (group.minSize of its config): raise --attempts.',
    )
  })

  it('over a queue', async () => {
    const { root } = workspaceOfGroups()
    const redis = ['rollouts/ranked/main.ts', '--redis', 'redis://127.0.0.1:1']
    const said =
      'A queue spreads the attempts at a row over its workers, and RankGrader of rollouts/ranked/main.ts is a GroupGrader, which has to see all of them: leave out --redis.'
    for (const command of ['serve', 'worker']) {
      expect(await run([command, ...redis], { OSMOSIS_CODE_VERSION: '1' }, root)).toMatchObject({
        code: 2,
        stderr: `error: ${said}\n`,
      })
    }
  })
})
