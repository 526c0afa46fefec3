import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { failure, makeRun, rewarded, type MadeItem, type MadeRun, type Steps } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'

/** The block about training in the report of a run. */
async function readiness(made: Omit<MadeRun, 'outputRoot' | 'name'>): Promise<string[]> {
  const outputRoot = temporaryFolder()
  await makeRun({ outputRoot, name: 'airline-1', ...made })
  const { stdout } = await run(['eval', 'show', '--output', outputRoot, 'airline-1', '--details'], {
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

describe('the training readiness of a run', () => {
  it('is yes when rows have a training signal and no rollout is lost', async () => {
    const items = rewarded([
      [1, 0, 1, 0],
      [1, 1, 1, 0],
      [1, 1, 1, 1],
      [0, 0, 0, 0],
      [1, 0, 1, 0],
    ])
    expect(await readiness({ rows: 5, n: 4, items })).toStrictEqual([
      'Ready to train: yes',
      '✓ 60.0 % of 5 rows have a training signal in groups of 4 (36.7 % of 2). Of the other rows, 1 never passes, 1 always does.',
      expect.stringContaining(' --filter -is:signal'),
      '✓ Every rollout has a reward.',
      '✓ Every call extends the conversation before it.',
      '✓ No answer is cut off.',
      '· 100 tokens per rollout are trained, 95 % of them within 100.',
    ])
  })

  it('names the losses with the agent, the framework and the step', async () => {
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
      '! 3 rollouts have a call that does not extend the conversation before it, where trainers split or mask. planner (Agents/JavaScript 0.11.0) in 2, first in 1.1 at step 4; writer in 1, first in 2.1 at step 4. Causes are trimmed or summarised histories and agents that share a sample.',
      '! 1 rollout of 12 has an answer that is cut off (finish_reason length): allow more tokens, or let the grader score it as truncated.',
    ])
    expect(lines.filter((line) => line.startsWith('  osmosis'))).toMatchObject([
      expect.stringContaining('-is:signal'),
      expect.stringContaining('is:novalue'),
      expect.stringContaining('is:rewritten'),
      expect.stringContaining('is:cut'),
    ])
  })

  it('is no when nothing would be learned', async () => {
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
      '! No row has a training signal in groups of 2: nothing would be learned. Of the other rows, 1 never passes, 1 always does.',
    ])
    const silent = rewarded([[1, 0]]).map((item) => ({
      ...item,
      event: { ...item.event, calls: 0 },
    }))
    expect(await readiness({ rows: 1, n: 2, items: silent })).toContain(
      '! 2 rollouts never called the policy, so there is nothing to train. Does the agent use another model?',
    )
  })

  it('is not known after a few rows, and has no remark about calls that were not made', async () => {
    const lines = await readiness({ rows: 1, n: 2, items: rewarded([[1, 0]]) })
    expect(lines.slice(0, 2)).toStrictEqual([
      'Ready to train: not known',
      '? 100.0 % of 1 row has a training signal in groups of 2. With this few rows the figure is rough.',
    ])
    const silent = rewarded([[1, 0]]).map((item) => ({
      ...item,
      event: { ...item.event, calls: 0 },
    }))
    const text = (await readiness({ rows: 1, n: 2, items: silent })).join('\n')
    expect(text).not.toMatch(/extends|cut off/)
  })

  it('is not known with one attempt per row', async () => {
    expect((await readiness({ rows: 2, items: rewarded([[1], [0]]) })).slice(0, 2)).toStrictEqual([
      'Ready to train: not known',
      '? With one attempt per row it is not known which rows have a training signal. Run it with --n 4 or more.',
    ])
  })
})
