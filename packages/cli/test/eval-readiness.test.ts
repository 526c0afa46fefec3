import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { failure, makeRun, rewarded, type MadeItem, type MadeRun, type Steps } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'

/** What the report of a run says of training, without the commands. */
async function readiness(made: Omit<MadeRun, 'outputRoot' | 'name'>): Promise<string[]> {
  const outputRoot = temporaryFolder()
  await makeRun({ outputRoot, name: 'airline-1', ...made })
  const { stdout } = await run(['eval', 'show', '--output', outputRoot, 'airline-1'], {
    COLUMNS: '300',
  })
  const lines = stdout.split('\n')
  const first = lines.findIndex((line) => line.startsWith('Ready to train'))
  return lines.slice(first, lines.indexOf('', first))
}

/** Two questions in one conversation; the history of the second call is not the first call's. */
const forgetful: Steps = [
  { step_id: 1, source: 'user', message: 'First' },
  { step_id: 2, source: 'agent', message: 'One', metrics: {} },
  { step_id: 3, source: 'user', message: 'Second' },
  {
    step_id: 4,
    source: 'agent',
    message: 'Two',
    metrics: { extra: { history_rewritten: true } },
  },
]

describe('the readiness of an agent', () => {
  it('is given where rows have a gradient and nothing gets lost', async () => {
    const items = rewarded([
      [1, 0, 1, 0],
      [1, 1, 1, 0],
      [1, 1, 1, 1],
      [0, 0, 0, 0],
      [1, 0, 1, 0],
    ])
    expect(await readiness({ rows: 5, n: 4, items })).toStrictEqual([
      'Ready to train: yes',
      '✓ 60.0 % of 5 rows have a gradient in groups of 4 (36.7 % of 2). Of the others 1 never passes, 1 always does.',
      expect.stringContaining(' --filter -is:signal'),
      '✓ Every rollout has a reward.',
      '✓ Every call extends the conversation before it.',
      '✓ No answer is cut off.',
      '· 100 tokens per rollout are trained, 95 % of them within 100.',
    ])
  })

  it('says what would get lost, and in which agent of which framework, and at which step', async () => {
    const item = (row: number, attempt: number, more: Partial<MadeItem> = {}): MadeItem => ({
      row,
      attempt,
      event: { reward: attempt, ...more.event },
      ...(more.samples === undefined ? {} : { samples: more.samples }),
      ...(more.userAgent === undefined ? {} : { userAgent: more.userAgent }),
    })
    const items = [
      item(0, 0, { event: failure('http_error', 'The policy did not answer.') }),
      item(0, 1, { event: { reward: 1, finish: { length: 1 } } }),
      item(1, 0, {
        event: { reward: 0, rewritten: 1 },
        samples: { planner: forgetful },
        userAgent: 'Agents/JavaScript 0.11.0',
      }),
      item(1, 1, {
        event: { reward: 1, rewritten: 1 },
        samples: { planner: forgetful },
        userAgent: 'Agents/JavaScript 0.11.0',
      }),
      item(2, 0, { event: { reward: 0, rewritten: 1 }, samples: { writer: forgetful } }),
      ...[2, 3, 4, 5].flatMap((row) => [item(row, 0), item(row, 1)]).slice(1),
    ]
    const [verdict, ...lines] = await readiness({ rows: 6, n: 2, items })
    expect(verdict).toBe('Ready to train: yes, with losses')
    expect(lines.filter((line) => line.startsWith('!'))).toStrictEqual([
      '! 1 of 12 rollouts has no reward: trainers leave them out, and their groups are smaller.',
      '! 3 rollouts have a call that does not extend the conversation before it, where trainers split or mask. planner (Agents/JavaScript 0.11.0) in 2, first in 1.1 at step 4; writer in 1, first in 2.1 at step 4. Trimmed or summarised histories do that, and agents that share a sample.',
      '! 1 rollout of 12 has an answer that is cut off (finish_reason length): allow more tokens, or reward it as what it is.',
    ])
    expect(lines.filter((line) => line.startsWith('  osmosis'))).toMatchObject([
      expect.stringContaining('-is:signal'),
      expect.stringContaining('is:novalue'),
      expect.stringContaining('is:rewritten'),
      expect.stringContaining('is:cut'),
    ])
  })

  it('is denied where nothing would be learned', async () => {
    const equal = await readiness({
      rows: 2,
      n: 2,
      items: rewarded([
        [1, 1],
        [0, 0],
      ]),
    })
    expect(equal.slice(0, 2)).toStrictEqual([
      'Ready to train: no',
      '! No row has a gradient in groups of 2: nothing would be learned. Of the others 1 never passes, 1 always does.',
    ])
    const silent = rewarded([[1, 0]]).map((item) => ({
      ...item,
      event: { ...item.event, calls: 0 },
    }))
    expect(await readiness({ rows: 1, n: 2, items: silent })).toContain(
      '! 2 rollouts never asked the policy, so there is nothing to train. Does the agent use another model?',
    )
  })

  it('is not known after a few rows, and says nothing of calls that were not made', async () => {
    const lines = await readiness({ rows: 1, n: 2, items: rewarded([[1, 0]]) })
    expect(lines.slice(0, 2)).toStrictEqual([
      'Ready to train: not known',
      '? 100.0 % of 1 row has a gradient in groups of 2. So few rows say little of others.',
    ])
    const silent = rewarded([[1, 0]]).map((item) => ({
      ...item,
      event: { ...item.event, calls: 0 },
    }))
    const text = (await readiness({ rows: 1, n: 2, items: silent })).join('\n')
    expect(text).not.toMatch(/extends|cut off/)
  })

  it('is not known after one attempt a row', async () => {
    expect((await readiness({ rows: 2, items: rewarded([[1], [0]]) })).slice(0, 2)).toStrictEqual([
      'Ready to train: not known',
      '? One attempt a row does not say which rows have a gradient: run it with --n 4 or more.',
    ])
  })
})
