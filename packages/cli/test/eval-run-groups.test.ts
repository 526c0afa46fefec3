import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { startOsmosis, temporaryFolder, type Finished } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// Attempts say which of how many they are, and notes what the grader saw beside them. `two` fails in its
// second attempt, and `four` waits in its second one for a file, where the environment says so.
const ranked = `import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { GroupGrader } from '@osmosis/core'
import { EchoWorkflow as Echo } from '../echo/main.ts'

export class RankedWorkflow extends Echo {
  override async run(ctx) {
    const { FAILS, GATE } = process.env
    const name = ctx.prompt[0].content + ' ' + ctx.group?.attempt
    if (name === FAILS) throw new Error('the agent broke')
    while (name === 'four 2' && GATE && !existsSync(GATE)) await sleep(20, undefined, { signal: ctx.signal })
    return super.run(ctx)
  }
}

export class RankGrader extends GroupGrader {
  async gradeGroup({ members, failed, missing, group }) {
    for (const member of members) {
      member.sample.metrics = { members: members.length, failed: failed.length, missing: missing.length }
      member.setReward(member.attempt / group.size)
    }
  }
}
`

const other = `export { policy } from './echo.ts'\n`
const base =
  'eval run -m rollouts/ranked/main.ts -d data/words.jsonl --policy policies/echo.ts --name r'

function workspaceOfGroups(): {
  readonly root: string
  /** Words behind those of every run. */
  readonly words: (more: string) => string[]
  readonly evaluate: (more: string, env?: Record<string, string>) => Promise<Finished>
  readonly events: () => ItemEvent[]
  readonly journal: string
  readonly output: string
} {
  const root = temporaryWorkspace({
    'rollouts/ranked/main.ts': ranked,
    'policies/other.ts': other,
  })
  const output = temporaryFolder()
  const journal = path.join(output, 'r/events.jsonl')
  const words = (more: string): string[] => `${base} --output ${output} ${more}`.trim().split(' ')
  return {
    root,
    words,
    evaluate: async (more, env = {}) => run(words(more), env, root),
    events: () => {
      const lines = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n') : []
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as ItemEvent)
    },
    journal,
    output,
  }
}

/** Row, attempt and model, as \`0.1\` or \`0.1 baseline\`. */
function placeOf({ source_row_index, run_index, model_tag = 'primary' }: ItemEvent): string {
  const place = `${source_row_index}.${run_index + 1}`
  return model_tag === 'primary' ? place : `${place} ${model_tag}`
}

/** What each place ended with last. */
function rewards(events: readonly ItemEvent[]): Record<string, number | null> {
  return Object.fromEntries(events.map((event) => [placeOf(event), event.reward]))
}

/** The places of a whole run of four rows, each with this reward. */
function everywhere(n: number, tags = ['']): Record<string, number> {
  const attempts = Array.from({ length: n }, (_, index) => index + 1)
  return Object.fromEntries(
    [0, 1, 2, 3].flatMap((row) =>
      attempts.flatMap((attempt) =>
        tags.map((tag) => [`${row}.${attempt}${tag}`, attempt / n] as const),
      ),
    ),
  )
}

it('osmosis eval run gives a grader of groups the attempts of each row and model', async () => {
  const { evaluate, events } = workspaceOfGroups()
  const { code, stderr } = await evaluate(
    '--n 3 --max-in-flight 1 --baseline-policy policies/other.ts',
  )
  expect(code).toBe(0)
  expect(stderr).toContain(
    '  In flight  3 at a time: raised from 1, because the grader sees the 3 attempts at a row together\n',
  )
  expect(rewards(events())).toStrictEqual(everywhere(3, ['', ' baseline']))
  expect(events().map(({ metrics }) => metrics)).toStrictEqual(
    Array.from({ length: 24 }, () => ({ members: 3, failed: 0, missing: 0 })),
  )
}, 30_000)

it('an attempt that failed has no reward, and the others are graded without it', async () => {
  const { evaluate, events } = workspaceOfGroups()
  const { code } = await evaluate('--n 3', { FAILS: 'two 2' })
  expect(code).toBe(0)
  expect(rewards(events())).toStrictEqual({ ...everywhere(3), '1.2': null })
  const two = events().filter((event) => event.source_row_index === 1)
  expect(Object.fromEntries(two.map((event) => [placeOf(event), event.metrics]))).toStrictEqual({
    '1.1': { members: 2, failed: 1, missing: 0 },
    '1.2': {},
    '1.3': { members: 2, failed: 1, missing: 0 },
  })

  // What failed is compared with the others again.
  const again = await evaluate('--retry-failed')
  expect(again.stderr).toContain(
    '  Run again  2 rollouts that had ended: the grader sees the attempts at a row together\n',
  )
  expect(rewards(events())).toStrictEqual(everywhere(3))
  expect(events()).toHaveLength(15)
}, 30_000)

it('a run that grows runs its groups again as a whole', async () => {
  const { evaluate, events } = workspaceOfGroups()
  await evaluate('--n 2')
  const { code, stderr } = await evaluate('--n 3')
  expect(code).toBe(0)
  expect(stderr).toContain('  Run again  8 rollouts that had ended')
  expect(rewards(events())).toStrictEqual(everywhere(3))
}, 30_000)

describe('a run that ends while a group is waited for', () => {
  it('by Ctrl-C ends at once, and goes on with the whole group', async () => {
    const { root, words, evaluate, events } = workspaceOfGroups()
    const gate = path.join(root, 'gate')
    const command = startOsmosis(words('--n 2 --max-in-flight 8'), { GATE: gate }, root)
    await expect.poll(() => events().length, { timeout: 20_000 }).toBe(6)
    command.child.kill('SIGINT')
    expect((await command.finished).code).toBe(130)
    expect(rewards(events())).not.toHaveProperty('3.1')

    writeFileSync(gate, '')
    expect((await evaluate('', { GATE: gate })).stderr).not.toContain('Run again')
    expect(rewards(events())).toStrictEqual(everywhere(2))
    expect(events()).toHaveLength(8)
  }, 60_000)

  it('by a kill goes on with whole groups, also with one that was kept in part', async () => {
    const { root, words, evaluate, events, journal } = workspaceOfGroups()
    const gate = path.join(root, 'gate')
    const command = startOsmosis(words('--n 2 --max-in-flight 2'), { GATE: gate }, root)
    await expect.poll(() => events().length, { timeout: 20_000 }).toBe(6)
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
  }, 60_000)
})

describe('a grader of groups is refused', () => {
  it('for one attempt at each row', async () => {
    const { evaluate } = workspaceOfGroups()
    expect(await evaluate('')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'error: The grader of rollouts/ranked/main.ts compares the attempts at a row and needs at least 2 of them (group.minSize of its config), and this run has 1: pass --n 2 or more.\n',
      ),
    })
  }, 30_000)

  it('in worker processes', async () => {
    const { root, evaluate } = workspaceOfGroups()
    const said =
      'RankGrader is a GroupGrader, which sees all attempts at a row together, so one process has to run them all: leave out the workers (--workers).'
    expect((await evaluate('--n 2 --workers 2')).stderr).toContain(said)
    const served = startOsmosis(
      ['serve', 'rollouts/ranked/main.ts', '--port', '0', '--workers', '2'],
      {},
      root,
    )
    expect(await served.finished).toMatchObject({ code: 1, stderr: `error: ${said}\n` })
  }, 30_000)

  it('for a trainer that gives no groups, or too small ones', async () => {
    const { root } = workspaceOfGroups()
    const refused = async (flags: string): Promise<string> => {
      const words = `worker rollouts/ranked/main.ts ${flags}`.split(' ')
      return (await run(words, { OSMOSIS_TRAINER_KEY: 'key' }, root)).stderr
    }
    expect(await refused('--agent-lightning http://127.0.0.1:1')).toBe(
      'error: RankGrader is a GroupGrader, which judges the attempts at a row together, and Agent Lightning at http://127.0.0.1:1 does not say which rollouts belong together: use a Grader.\n',
    )
    const trinity = '--trinity http://127.0.0.1:1 --dataset data/words.jsonl --groups-per-commit 1'
    expect(await refused(`${trinity} --attempts 1`)).toContain(
      'there are 1 of them, and it needs 2 (group.minSize of its config): raise --attempts.',
    )
  }, 30_000)

  it('over a queue', async () => {
    const { root } = workspaceOfGroups()
    const redis = [
      'rollouts/ranked/main.ts',
      '--redis',
      'redis://127.0.0.1:1',
      '--code-version',
      '1',
    ]
    const said =
      'A queue spreads the attempts at a row over its workers, and RankGrader of rollouts/ranked/main.ts is a GroupGrader, which has to see all of them: leave out --redis.'
    for (const command of ['serve', 'worker']) {
      expect(await run([command, ...redis], {}, root)).toMatchObject({
        code: 1,
        stderr: `error: ${said}\n`,
      })
    }
  }, 30_000)
})

it('osmosis rollout send says why one rollout alone is not graded', async () => {
  const { root } = workspaceOfGroups()
  const words =
    'rollout send rollouts/ranked/main.ts 0 -d data/words.jsonl --policy policies/echo.ts'
  const { code, stdout, stderr } = await run(words.split(' '), {}, root)
  expect(code).toBe(1)
  expect(`${stdout}${stderr}`).toContain(
    'The grader judges all attempts at a row together, and this rollout came without a group.',
  )
}, 30_000)

const inverse = `import { GroupGrader } from '@osmosis/core'
export class InverseGrader extends GroupGrader {
  async gradeGroup({ members, failed, missing, group }) {
    for (const member of members) member.setReward(1 - member.attempt / group.size)
    if (failed.length + missing.length > 0) throw new Error('a part of ' + group.size)
  }
}
`

describe('osmosis eval regrade', () => {
  it('gives a grader of groups the stored attempts of each row, also of some that are asked for', async () => {
    const { root, evaluate, output } = workspaceOfGroups()
    await evaluate('--n 3', { FAILS: 'two 2' })
    const regrade = async (more: string): Promise<Record<string, unknown>> => {
      const words = `eval regrade r -o ${output} --json ${more}`.trim().split(' ')
      return JSON.parse((await run(words, {}, root)).stdout) as Record<string, unknown>
    }
    expect(await regrade('')).toMatchObject({
      grader: 'RankGrader',
      rollouts: 12,
      graded: 11,
      changed: [],
      not_graded: { failed: ['1.2'], pending: [] },
    })
    const file = path.join(root, 'rollouts/ranked/inverse.ts')
    writeFileSync(file, inverse)
    expect(await regrade(`--grader ${file} --filter row:0`)).toMatchObject({
      grader: 'InverseGrader',
      rollouts: 3,
      graded: 3,
      errors: [],
    })
    expect(await regrade(`--grader ${file}`)).toMatchObject({
      graded: 11,
      errors: [
        { rollout: '1.1', error: 'a part of 3' },
        { rollout: '1.3', error: 'a part of 3' },
      ],
    })
  }, 60_000)

  it('takes a grader of groups whenever it is saved', async () => {
    const { root, evaluate, output } = workspaceOfGroups()
    await evaluate('--n 2')
    const file = path.join(root, 'rollouts/ranked/inverse.ts')
    writeFileSync(file, inverse)
    const words = `eval regrade r -o ${output} --grader ${file} --watch`.split(' ')
    const command = startOsmosis(words, {}, root)
    await command.printed(/mean reward 0\.75 → 0\.25/)
    writeFileSync(file, inverse.replace('1 - member.attempt / group.size', '1'))
    await command.printed(/mean reward 0\.75 → 1\b/)
    command.child.kill('SIGINT')
    expect((await command.finished).code).toBe(130)
  }, 60_000)
})
