import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { evaluate } from './loop-evaluation.ts'
import { endpoint, say } from './model-endpoint.ts'
import { osmosis, temporaryFolder } from './osmosis.ts'

const adder = ['-m', 'rollouts/agent-loops/adder.ts:agentLoop']
const data = ['-d', 'data/sums.jsonl']
const policy = ['--policy', 'policies/adding.ts']
const rewards = 'rollouts/agent-loops/rewards.ts'
function writeDataset(...rows: readonly object[]): string[] {
  const file = path.join(temporaryFolder(), 'data.jsonl')
  writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return ['-d', file]
}

describe('osmosis eval loop', () => {
  it('scores every run by every function, says how each went, and reports', async () => {
    const functions = ['--eval-fn', `${rewards}:exact`, '--eval-fn', `${rewards}:closeness`]
    const { code, stdout, stderr, results } = await evaluate(
      ...adder,
      ...data,
      ...policy,
      ...functions,
    )
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr:
        'Evaluating the agent loop adder of rollouts/agent-loops/adder.ts with policies/adding.ts on 4 rows × 1 run of data/sums.jsonl\n',
    })
    const shown = stdout
      .replaceAll(/ *\b\d+(\.\d)? m?s\b/g, ' T')
      .replace(/127\.0\.0\.1:\d+/, 'trainer')
    expect(`\n${shown}`).toBe(`
[1/4] Row 0 run 0: OK ( T, 28 tokens, ${rewards}:exact 1, ${rewards}:closeness 1)
[2/4] Row 1 run 0: FAILED ( T, 0 tokens) - The policy endpoint http://trainer/v1/chat/completions answered 500: no two numbers
[3/4] Row 2 run 0: OK ( T, 28 tokens, ${rewards}:exact 0, ${rewards}:closeness 0.5)
[4/4] Row 3 run 0: OK ( T, 28 tokens, ${rewards}:exact 1, ${rewards}:closeness 1)

Evaluation    adder  finished
Dataset       data/sums.jsonl
Runs          4 rows × 1 run = 4
Passed        with a score of 1 or more
Time T

Score                                      Model                  Mean ± std  Min  Max  Scored  Pass rate
rollouts/agent-loops/rewards.ts:exact      policies/adding.ts  0.667 ± 0.471    0    1  3 of 4     50.0 %
rollouts/agent-loops/rewards.ts:closeness  policies/adding.ts  0.833 ± 0.236  0.5    1  3 of 4     50.0 %

Model               Runs  Failed  Average time  Average tokens
policies/adding.ts     4       1 T              21
`)
    const scores = (exact: number, closeness: number): object => ({
      run_index: 0,
      success: true,
      scores: { [`${rewards}:exact`]: exact, [`${rewards}:closeness`]: closeness },
      duration_ms: expect.any(Number),
      tokens: 28,
    })
    expect(results).toEqual({
      config: {
        model: 'policies/adding.ts',
        n_runs: 1,
        pass_threshold: 1,
        eval_fns: [`${rewards}:exact`, `${rewards}:closeness`],
      },
      summary: {
        total_rows: 4,
        total_runs: 4,
        stopped_early: false,
        eval_fns: {
          [`${rewards}:exact`]: {
            mean: expect.closeTo(2 / 3),
            std: expect.closeTo(Math.sqrt(2) / 3),
            median: 1,
            min: 0,
            max: 1,
            scored_runs: 3,
            pass_rate: 0.5,
          },
          [`${rewards}:closeness`]: expect.objectContaining({ mean: expect.closeTo(2.5 / 3) }),
        },
        total_tokens: 84,
        total_duration_ms: expect.any(Number),
      },
      rows: [
        { row_index: 0, runs: [scores(1, 1)] },
        {
          row_index: 1,
          runs: [
            {
              run_index: 0,
              success: false,
              scores: {},
              duration_ms: expect.any(Number),
              tokens: 0,
              error: expect.stringContaining('no two numbers'),
            },
          ],
        },
        { row_index: 2, runs: [scores(0, 0.5)] },
        { row_index: 3, runs: [scores(1, 1)] },
      ],
    })
  })

  it('takes the reward of the loop when it is given no function', async () => {
    const { code, stdout, results } = await evaluate(...adder, ...data, ...policy, '--limit', '1')
    expect([code, results.config['eval_fns'], results.rows[0]?.runs[0]?.['scores']]).toEqual([
      0,
      ['reward'],
      { reward: 1 },
    ])
    expect(stdout).toMatch(/^\[1\/1\] Row 0 run 0: OK \(.* 28 tokens, reward 1\)\n/)
  })

  it('gives no score where there is none: not for a loop without rewards, nor for a function that throws or returns no number', async () => {
    const upstream = await endpoint((_, response) => say(response, '5'))
    const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1']
    const confiding = ['-m', 'rollouts/agent-loops/confiding.ts']
    const unrewarded = await evaluate(...confiding, ...data, ...address, '--limit', '2')
    expect(unrewarded.code).toBe(1)
    expect(unrewarded.stderr.split('\n').slice(1)).toEqual([
      'warning: Row 0 run 0 got no score from reward: the loop completed without a reward; pass --eval-fn to score its runs',
      'error: reward scored no run of m1.',
      '',
    ])
    expect(unrewarded.results.summary.eval_fns).toEqual({
      reward: {
        mean: null,
        std: null,
        median: null,
        min: null,
        max: null,
        scored_runs: 0,
        pass_rate: 0,
      },
    })

    const names = ['moody', 'notANumber', 'exact'].map((name) => `${rewards}:${name}`)
    const functions = names.flatMap((name) => ['--eval-fn', name])
    const { code, stdout, stderr, results } = await evaluate(
      ...adder,
      ...data,
      ...policy,
      ...functions,
    )
    expect(code).toBe(1)
    expect(stderr.split('\n').slice(1)).toEqual([
      `warning: Row 0 run 0 got no score from ${rewards}:notANumber: it must return a finite number, got NaN`,
      `warning: Row 2 run 0 got no score from ${rewards}:moody: no even numbers today`,
      `error: ${rewards}:notANumber scored no run of policies/adding.ts.`,
      '',
    ])
    expect(stdout).toContain(
      `${rewards}:moody 1, ${rewards}:exact 1, ${rewards}:notANumber no score)`,
    )
    expect(results.rows.map(({ runs: [run] }) => [run?.['scores'], run?.['score_errors']])).toEqual(
      [
        [
          { [`${rewards}:moody`]: 1, [`${rewards}:exact`]: 1 },
          { [`${rewards}:notANumber`]: 'it must return a finite number, got NaN' },
        ],
        [{}, undefined],
        [
          { [`${rewards}:exact`]: 0 },
          {
            [`${rewards}:moody`]: 'no even numbers\ntoday',
            [`${rewards}:notANumber`]: 'it must return a finite number, got string',
          },
        ],
        [{ [`${rewards}:exact`]: 1 }, expect.anything()],
      ],
    )
    // One of four runs passed by the moody one: what has no score has not passed.
    expect(results.summary.eval_fns[`${rewards}:moody`]).toMatchObject({ mean: 1, pass_rate: 0.25 })
  })

  it('shows a function the run and the row, and nothing of what another one did to them', async () => {
    const row = {
      user_prompt: '2 and 3',
      ground_truth: '5',
      level: 3,
      tags: ['a', 'b'],
      source: 'column',
      metadata: { source: 'metadata' },
    }
    const names = ['spoiling', 'sees', 'rowSeen'].map((name) => `${rewards}:${name}`)
    const functions = names.flatMap((name) => ['--eval-fn', name])
    const { results } = await evaluate(...adder, ...writeDataset(row), ...policy, ...functions)
    expect(results.rows[0]?.runs[0]?.['scores']).toEqual({
      [`${rewards}:spoiling`]: 0.5,
      [`${rewards}:sees`]: 5,
      [`${rewards}:rowSeen`]: 3,
    })
  })

  it('refuses to score a row without a ground truth by a reward function', async () => {
    const rows = writeDataset({ user_prompt: '2 and 3', metadata: { level: 1 } })
    const { code, stderr } = await evaluate(
      ...adder,
      ...rows,
      ...policy,
      '--eval-fn',
      `${rewards}:exact`,
    )
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("'groundTruth' must be a string, got null"),
    ])
  })

  it('tells the loop of the row, which cannot pass for the evaluation itself', async () => {
    const upstream = await endpoint((_, response) => say(response, '5'))
    const rows = writeDataset({
      user_prompt: 'hi',
      ground_truth: '5',
      level: 3,
      source: 'column',
      metadata: {
        source: 'metadata',
        ground_truth: '6',
        row_index: 9,
        execution_mode: 'production',
      },
    })
    const loop = ['-m', 'rollouts/agent-loops/confiding.ts:agentLoop', ...rows]
    const address = ['--base-url', `${upstream.url}/v1`, '--model', 'm1']
    await osmosis(['eval', 'loop', ...loop, ...address, '--n', '2'])
    await osmosis(['test', ...loop, ...address])
    const told = upstream.received.map(({ body }) => {
      const [message] = body['messages'] as [{ content: string }]
      return JSON.parse(message.content) as { id: string; metadata: unknown }
    })
    const metadata = { level: 3, source: 'metadata', ground_truth: '5', row_index: 0 }
    expect(told.map((run) => run.metadata)).toEqual([
      { ...metadata, execution_mode: 'eval' },
      { ...metadata, execution_mode: 'eval' },
      { ...metadata, execution_mode: 'test' },
    ])
    expect(told.map(({ id }) => id.slice(0, -9))).toEqual([
      'eval-0-run-0',
      'eval-0-run-1',
      'test-0',
    ])
  })

  it('reports pass@k for rows that all, none and some of the runs solve', async () => {
    const limits = ['--limit', '3', '--n', '2', '--eval-fn', `${rewards}:exact`]
    const uneven = ['--policy', 'policies/uneven.ts']
    const { code, stdout, results } = await evaluate(...adder, ...data, ...uneven, ...limits)
    expect(code).toBe(0)
    expect(results.summary.eval_fns[`${rewards}:exact`]).toMatchObject({
      mean: 0.5,
      std: 0.5,
      pass_rate: 0.5,
      pass_at_k: [
        { k: 1, value: 0.5 },
        { k: 2, value: expect.closeTo(2 / 3) },
      ],
    })
    expect(stdout).toMatch(/Pass rate +Pass@1 +Pass@2\n.* 50\.0 % +50\.0 % +66\.7 %\n/)

    const passes = async (offset: string): Promise<unknown> => {
      const one = ['--offset', offset, '--limit', '1', '--n', '2', '--quiet']
      const evaluation = await evaluate(...adder, ...data, ...uneven, ...one)
      expect(evaluation.stdout).toMatch(/^\nEvaluation/)
      return evaluation.results.summary.eval_fns['reward']?.pass_at_k
    }
    expect(await passes('0')).toEqual([
      { k: 1, value: 1 },
      { k: 2, value: 1 },
    ])
    expect(await passes('1')).toEqual([
      { k: 1, value: 0 },
      { k: 2, value: 0 },
    ])
  })

  it('passes runs from the threshold on', async () => {
    const { results } = await evaluate(
      ...adder,
      ...data,
      ...policy,
      '--eval-fn',
      `${rewards}:closeness`,
      '--pass-threshold',
      '0.5',
    )
    expect(results.config['pass_threshold']).toBe(0.5)
    expect(results.summary.eval_fns[`${rewards}:closeness`]?.pass_rate).toBe(0.75)
  })
})
