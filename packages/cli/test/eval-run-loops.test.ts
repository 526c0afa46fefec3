import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { evaluate, inWorkspace } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
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

describe('osmosis eval run, an agent loop', { tags: 'nightly' }, () => {
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
})
