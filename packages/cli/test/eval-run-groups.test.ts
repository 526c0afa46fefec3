import { writeFileSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { everywhere, inverse, placeOf, rewards, workspaceOfGroups } from './group-runs.ts'
import { run } from './in-process.ts'
import { startOsmosis } from './osmosis.ts'

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
  const partOf3: unknown = expect.stringMatching(
    /^thrown by gradeGroup\(\) at \S*inverse\.ts:5: a part of 3$/,
  )
  expect(JSON.parse((await run(words, {}, root)).stdout)).toMatchObject({
    grader: 'InverseGrader',
    rollouts: 12,
    graded: 11,
    not_graded: { failed: ['1.2'], pending: [] },
    errors: [
      { rollout: '1.1', error: partOf3 },
      { rollout: '1.3', error: partOf3 },
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
    const groups = '--group-column index --group-size 1'
    expect(await refused(`--agent-lightning http://127.0.0.1:1 ${groups}`)).toContain(
      'there are 1 of them, and it needs 2 (group.minSize of its config): raise --group-size.',
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

it(
  'osmosis eval run gives a grader of groups the attempts of each row',
  { tags: 'nightly' },
  async () => {
    const { evaluate, events } = workspaceOfGroups()
    const { code, stderr } = await evaluate('--n 3 --max-in-flight 1')
    expect(code).toBe(0)
    expect(stderr).toContain(
      '  In flight  3 concurrently: raised from 1, because the grader sees the 3 attempts at a row together\n',
    )
    expect(rewards(events())).toStrictEqual(everywhere(3))
    expect(events().map(({ metrics }) => metrics)).toStrictEqual(
      Array.from({ length: 12 }, () => ({ members: 3, failed: 0, missing: 0 })),
    )
  },
)

it('a grader of groups is refused for one attempt at each row', { tags: 'nightly' }, async () => {
  const { evaluate } = workspaceOfGroups()
  expect(await evaluate('')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      'error: The grader of rollouts/ranked/main.ts compares the attempts at a row and needs at least 2 of them (group.minSize of its config), and this run has 1: pass --n 2 or more.\n',
    ),
  })
})

it('a run that grows runs its groups again as a whole', { tags: 'nightly' }, async () => {
  const { evaluate, events } = workspaceOfGroups()
  await evaluate('--n 2')
  const { code, stderr } = await evaluate('--n 3')
  expect(code).toBe(0)
  expect(stderr).toContain('  Run again  8 rollouts that had ended')
  expect(rewards(events())).toStrictEqual(everywhere(3))
})

it('an evaluation with workers refuses a grader of groups', { tags: 'nightly' }, async () => {
  const { evaluate } = workspaceOfGroups()
  expect((await evaluate('--n 2 --workers 2')).stderr).toContain(
    'RankGrader is a GroupGrader, which sees all attempts at a row together, so one process has to run them all: leave out the workers (--workers).',
  )
})

describe('a run that ends while a group is waited for', { tags: 'nightly' }, () => {
  it('by Ctrl-C ends at once, and continues with the whole group', async () => {
    const { root, words, evaluate, events } = workspaceOfGroups()
    const gate = path.join(root, 'gate')
    const command = startOsmosis(words('--n 2 --max-in-flight 8'), { GATE: gate }, root)
    await expect.poll(() => events().length).toBe(6)
    command.child.kill('SIGINT')
    expect((await command.finished).code).toBe(130)
    expect(rewards(events())).not.toHaveProperty('3.1')

    writeFileSync(gate, '')
    expect((await evaluate('', { GATE: gate })).stderr).not.toContain('Run again')
    expect(rewards(events())).toStrictEqual(everywhere(2))
    expect(events()).toHaveLength(8)
  })

  it('by a kill continues with whole groups, also with one that was stored in part', async () => {
    const { root, words, evaluate, events, journal } = workspaceOfGroups()
    const gate = path.join(root, 'gate')
    const command = startOsmosis(words('--n 2 --max-in-flight 2'), { GATE: gate }, root)
    await expect.poll(() => events().length).toBe(6)
    command.child.kill('SIGKILL')
    await command.finished
    // As if the kill had come between the two members of the third row.
    const lines = readFileSync(journal, 'utf8').trimEnd().split('\n')
    writeFileSync(journal, `${lines.slice(0, -1).join('\n')}\n`)
    const before = events()
    expect(before.map(placeOf).slice(-1)).toStrictEqual([expect.stringMatching(/^2\./)])

    writeFileSync(gate, '')
    const { code, stderr } = await evaluate('', { GATE: gate })
    expect(code).toBe(0)
    expect(stderr).toContain('  Run again  1 rollout that had ended')
    expect(rewards(events())).toStrictEqual(everywhere(2))
    const added = events().slice(before.length).map(placeOf)
    expect(added.toSorted()).toStrictEqual(['2.1', '2.2', '3.1', '3.2'])
  })
})

it('osmosis eval regrade grades a part by whole rows', { tags: 'nightly' }, async () => {
  const { root, evaluate, output } = workspaceOfGroups()
  await evaluate('--n 2')
  const file = path.join(root, 'inverse.ts')
  writeFileSync(file, inverse)
  const words = `eval regrade r -o ${output} --grader ${file}`.split(' ')
  const part = await run([...words, '--json', '--filter', 'row:0'], {}, root)
  expect(JSON.parse(part.stdout)).toMatchObject({
    grader: 'InverseGrader',
    rollouts: 2,
    graded: 2,
    errors: [],
  })
})
