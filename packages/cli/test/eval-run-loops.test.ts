import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { evaluate, inWorkspace, run } from './in-process.ts'
import { endpoint, refuse, say, type Received } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const adder = '-m rollouts/agent-loops/adder:agentLoop'
const sums = '-d data/sums.jsonl'
const policy = '--policy policies/adding.ts'
const rewards = 'rollouts/agent-loops/rewards.ts'

function writeDataset(...rows: readonly object[]): string {
  const file = path.join(temporaryFolder(), 'data.jsonl')
  writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  return `-d ${file}`
}

/** So many rows; row `i` says `q<i>`, and wants to hear `5` when `i` is even. */
function numbered(count: number): string {
  return writeDataset(
    ...Array.from({ length: count }, (_, i) => ({
      user_prompt: `q${i}`,
      ground_truth: i % 2 === 0 ? '5' : '6',
    })),
  )
}

function at(url: string): string {
  return `--base-url ${url}/v1 --model m1`
}

describe('osmosis eval run, an agent loop', () => {
  it('gives the reward of the loop, by a config as well', async () => {
    const {
      code,
      stdout,
      stderr,
      records,
      run: facts,
    } = await evaluate('configs/eval/adder.toml --policy adding --details')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^agent-loops · sums · /m)
    expect(stdout).toMatch(/^Pass rate +50\.0 % +2 of 4 have a reward of 1 or more$/m)
    expect(stdout).toMatch(/^1 × agent_error, 1\.1\n {2}The policy endpoint /m)
    expect(stderr).toContain('4/4 rollouts  50 % passed')
    expect(facts).toMatchObject({ status: 'finished', rollout_name: 'agent-loops' })
    expect(
      records.map(({ status, reward, tokens, error_message }) => [
        status,
        reward,
        tokens,
        error_message,
      ]),
    ).toEqual([
      ['success', 1, 28, undefined],
      ['failed', undefined, undefined, expect.stringMatching(/answered 500: no two numbers \(/)],
      ['success', 0, 28, undefined],
      ['success', 1, 28, undefined],
    ])
  })

  it('gets no score where there is none: the reason is a warning, in the files and in the exit code', async () => {
    const names = ['moody', 'notANumber', 'exact'].map((name) => `${rewards}:${name}`)
    const functions = names.map((name) => `--eval-fn ${name}`)
    const { code, stderr, records, summary } = await evaluate(
      adder,
      sums,
      policy,
      ...functions,
      '--max-in-flight 1',
    )
    expect(code).toBe(1)
    expect(stderr.split('\n').filter((line) => /^(?:warning|error)/.test(line))).toEqual([
      `warning: Row 0 attempt 0 got no score from ${rewards}:notANumber: it must return a finite number, got NaN`,
      `warning: Row 2 attempt 0 got no score from ${rewards}:moody: no even numbers today`,
      `error: ${rewards}:notANumber scored no rollout of policies/adding.ts.`,
    ])
    expect(records.map(({ scores, score_errors }) => [scores, score_errors])).toEqual([
      [
        { [`${rewards}:moody`]: 1, [`${rewards}:exact`]: 1 },
        { [`${rewards}:notANumber`]: 'it must return a finite number, got NaN' },
      ],
      [undefined, undefined],
      [
        { [`${rewards}:exact`]: 0 },
        {
          [`${rewards}:moody`]: 'no even numbers\ntoday',
          [`${rewards}:notANumber`]: 'it must return a finite number, got string',
        },
      ],
      [expect.anything(), expect.anything()],
    ])
    // One of four passed by the moody one: what has no score has not passed.
    expect(summary.scores?.[`${rewards}:moody`]).toMatchObject({
      pass_rate: 0.25,
      stats: { mean: 1 },
    })
  })
})

describe('osmosis eval run, when the policy fails a loop', () => {
  it('starts nothing more when no rollout can be answered, and none has failed for it', async () => {
    const upstream = await endpoint((_, response) => refuse(response, 401, 'wrong key'))
    const {
      code,
      stdout,
      stderr,
      records,
      run: facts,
    } = await evaluate(adder, numbered(40), at(upstream.url), '--max-in-flight 3 --details')
    expect(code).toBe(1)
    expect(stdout).toContain('\nrun  incomplete\n')
    expect(stderr).toMatch(/The policy answered 401: .*wrong key/)
    expect(stdout).toContain('40 rows × 1 attempt = 40 rollouts\n0 of 40 done\n')
    expect(facts['incomplete_reason']).toMatch(/^The policy answered 401: .*wrong key/)
    expect(records).toEqual([])
    expect(upstream.received).toHaveLength(3)
  })
})

function lastText({ body }: Received): string {
  return String((body['messages'] as { content: unknown }[]).at(-1)?.content)
}

describe('osmosis eval run, an agent loop', { tags: 'slow' }, () => {
  it('prints its result', async () => {
    const { code, stdout, records, summary } = await evaluate(
      adder,
      sums,
      policy,
      '--limit 2 --details',
    )
    expect(code).toBe(0)
    expect(stdout).toContain('2 rows × 1 attempt = 2 rollouts\n')
    expect(stdout).toMatch(/^Reward +1 .*\nPass rate +50\.0 % /m)
    expect(stdout).not.toContain('\u001B')
    expect(records.map(({ status, reward }) => [status, reward])).toEqual([
      ['success', 1],
      ['failed', undefined],
    ])
    expect(summary).toMatchObject({ total_samples: 2, tokens_used: 28, reward_stats: { mean: 1 } })
  })

  it('continues after a row that the loop has no tools for', async () => {
    const choosy = '-m rollouts/agent-loops/faulty.ts:choosy'
    const { code, records, stderr } = await evaluate(
      choosy,
      sums,
      policy,
      '--max-in-flight 1 --n 2',
    )
    expect([code, records.map(({ status }) => status)]).toEqual([
      0,
      ['success', 'success', 'failed', 'failed', 'success', 'success', 'success', 'success'],
    ])
    expect(records[2]?.['error_message']).toContain('nothing to add')
    // What a person sees meanwhile: how many have failed for what, and how long it may take.
    const progress = stderr.split('\n').filter((line) => line.includes('/8 rollouts'))
    expect(progress).toHaveLength(8)
    expect(progress[4]).toMatch(
      /^5\/8 rollouts {2}60 % passed {2}2 failed \(rollout_protocol_error\) {2}[\d.]+\/s {2}about [\d.]+ m?s left$/,
    )
    expect(progress[7]).toMatch(/^8\/8 rollouts {2}75 % passed {2}2 failed \(.*\) {2}[\d.]+\/s$/)
  })

  it('is scored by every function, one at a time or many', async () => {
    const functions = ['exact', 'closeness'].map((name) => `--eval-fn ${rewards}:${name}`)
    const flags = '--n 2'
    const inTurn = await evaluate(adder, sums, policy, ...functions, flags, '--max-in-flight 1')
    const atOnce = await evaluate(adder, sums, policy, ...functions, flags, '--max-in-flight 99')
    expect([inTurn.code, atOnce.code]).toEqual([0, 0])
    expect(inTurn.summary).toMatchObject({
      pass_threshold: 1,
      scores: {
        [`${rewards}:exact`]: { graded: 6, pass_rate: 0.5, stats: { median: 1, min: 0, max: 1 } },
        [`${rewards}:closeness`]: {
          graded: 6,
          pass_rate: 0.5,
          stats: { mean: expect.closeTo(2.5 / 3) },
          pass_at_k: [
            { k: 1, value: 0.5 },
            { k: 2, value: 0.5 },
          ],
        },
      },
    })
    expect(atOnce.summary).toEqual({ ...inTurn.summary, failures: expect.any(Array) })
    const scores = (records: readonly Record<string, unknown>[]): unknown[] =>
      records.map(({ row_index, run_index, scores: given }) => [row_index, run_index, given])
    expect(scores(atOnce.records)).toEqual(scores(inTurn.records))
  })

  it('learns the row, which cannot pass for the evaluation itself; without a reward it fails', async () => {
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
    const confiding = `-m rollouts/agent-loops/confiding.ts ${rows}`
    const { code, stderr, records } = await evaluate(
      confiding,
      at(upstream.url),
      '--n 2',
      '--max-in-flight 1',
    )
    expect(
      upstream.received.map(({ body }) => {
        const [message] = body['messages'] as [{ content: string }]
        const { id, metadata } = JSON.parse(message.content) as { id: string; metadata: unknown }
        return [id.slice(0, -9), metadata]
      }),
    ).toEqual(
      ['eval-0-run-0', 'eval-0-run-1'].map((id) => [
        id,
        { level: 3, source: 'metadata', ground_truth: '5', row_index: 0, execution_mode: 'eval' },
      ]),
    )
    expect([code, records[0]]).toMatchObject([
      1,
      {
        error_type: 'missing_reward',
        error_message: 'the loop completed without a reward',
      },
    ])
    expect(stderr).toContain('error: No rollout of m1 got a reward.\n')
  })

  it('asks the model at the address, and with the key and parameters, that are meant for it', async () => {
    const upstream = await endpoint((_, response) => say(response, '5'))
    const other = await endpoint((_, response) => say(response, '5'))
    const asked = ({ received }: typeof upstream): unknown[] =>
      received.map(({ body, headers }) => [body['model'], headers.authorization])
    const env = { MY_KEY: 'sk-1', OTHER_KEY: 'sk-2' }
    const evaluation = async ({ url }: typeof upstream, flags: string): Promise<void> => {
      const args = `eval run ${adder} ${sums} --limit 1 --base-url ${url}/v1 --max-in-flight 1 ${flags}`
      const { code } = await run([...args.split(' '), '--output', temporaryFolder()], env)
      expect(code).toBe(0)
    }

    await evaluation(
      upstream,
      '--models org/a:b,m0 --api-key-env MY_KEY --temperature 0.5 --max-tokens 64',
    )
    expect(asked(upstream)).toEqual([
      ['org/a:b', 'Bearer sk-1'],
      ['m0', 'Bearer sk-1'],
    ])
    expect(upstream.received[0]?.body).toMatchObject({ temperature: 0.5, max_tokens: 64 })
    await evaluation(other, '--model org/a:b')
    await evaluation(other, '--model org/a:b --api-key-env OTHER_KEY')
    expect(asked(other)).toEqual([
      ['org/a:b', undefined],
      ['org/a:b', 'Bearer sk-2'],
    ])
  })
})

describe('osmosis eval run, when the policy fails a loop', { tags: 'slow' }, () => {
  it('continues after rollouts that were answered 400, 500 or 502', async () => {
    const upstream = await endpoint((request, response) => {
      const status = { q0: 400, q1: 500, q2: 502 }[lastText(request)]
      if (status === undefined) say(response, '5')
      else refuse(response, status, 'not now')
    })
    const { code, run: facts, records } = await evaluate(adder, numbered(5), at(upstream.url))
    expect([code, facts['status']]).toEqual([0, 'finished'])
    expect(records.map(({ error_message }) => error_message)).toEqual([
      expect.stringContaining('answered 400: not now'),
      expect.stringContaining('answered 500: not now'),
      expect.stringContaining('answered 502: not now'),
      undefined,
      undefined,
    ])
  })
})
