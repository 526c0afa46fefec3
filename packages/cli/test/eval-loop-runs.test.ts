import { readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { readResults } from './loop-evaluation.ts'
import { endpoint, noRetries, refuse, say, type Received } from './model-endpoint.ts'
import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'

const adder = ['-m', 'rollouts/agent-loops/adder.ts:agentLoop']
const sums = ['-d', 'data/sums.jsonl']
const rewards = 'rollouts/agent-loops/rewards.ts'
/** So many rows; row `i` says `q<i>`, and wants to hear `5` when `i` is even. */
function numbered(count: number): string[] {
  const file = path.join(temporaryFolder(), 'data.jsonl')
  const lines = Array.from({ length: count }, (_, i) =>
    JSON.stringify({ user_prompt: `q${i}`, ground_truth: i % 2 === 0 ? '5' : '6' }),
  )
  writeFileSync(file, lines.join('\n'))
  return ['-d', file]
}

function at(url: string): string[] {
  return ['--base-url', `${url}/v1`, '--model', 'm1']
}

function lastText({ body }: Received): string {
  return String((body['messages'] as { content: unknown }[]).at(-1)?.content)
}

/** What an evaluation comes to, whatever time it took and ports it had. */
function outcome(text: string): unknown {
  return JSON.parse(text.replaceAll(/127\.0\.0\.1:\d+/g, 'trainer'), (key, value: unknown) =>
    key === 'duration_ms' || key === 'total_duration_ms' ? typeof value : value,
  )
}

describe('osmosis eval loop, many at a time', () => {
  it('keeps so many runs going, and comes to what one after the other comes to', async () => {
    const waiting: (() => void)[] = []
    const inTurn = await endpoint((request, response) => answer(request, response))
    // Answers when four wait, the latest first.
    const inFours = await endpoint((request, response) => {
      waiting.push(() => answer(request, response))
      if (waiting.length === 4) while (waiting.length > 0) waiting.pop()?.()
    })
    function answer(request: Received, response: ServerResponse): void {
      if (lastText(request) === 'q3') refuse(response, 500, 'not this one')
      else say(response, '5')
    }
    const output = path.join(temporaryFolder(), 'results.json')
    const comesTo = async (url: string, batchSize: string): Promise<unknown> => {
      const options = ['--n', '2', '--batch-size', batchSize, '--output', output]
      const args = [...adder, ...many, ...at(url), ...options]
      const { code } = await osmosis(['eval', 'loop', ...args], noRetries)
      expect(code).toBe(0)
      return outcome(readFileSync(output, 'utf8'))
    }
    const many = numbered(6)

    const concurrent = await comesTo(inFours.url, '4')
    expect(concurrent).toEqual(await comesTo(inTurn.url, '1'))
    const { rows } = readResults(output)
    expect(
      rows.map(({ row_index: row, runs }) => [row, runs.map((run) => run['run_index'])]),
    ).toEqual([0, 1, 2, 3, 4, 5].map((row) => [row, [0, 1]]))
    expect(rows[3]?.runs.map((run) => run['success'])).toEqual([false, false])
  })

  it('takes a batch size of more runs than there can be', async () => {
    const args = [...adder, ...sums, '--policy', 'policies/adding.ts', '--batch-size', '9999999999']
    const { code, stdout } = await osmosis(['eval', 'loop', ...args], noRetries)
    expect([code, stdout]).toEqual([0, expect.stringContaining('[4/4] ')])
  })

  it('goes on when something that nobody waits for fails in a loop or an eval function', async () => {
    const straying = 'rollouts/agent-loops/straying.ts'
    const options = ['--eval-fn', `${straying}:judge`, '--policy', 'policies/adding.ts']
    const output = path.join(temporaryFolder(), 'results.json')
    const args = ['-m', straying, ...sums, ...options, '--limit', '1', '-o', output]
    const { code, stderr } = await osmosis(['eval', 'loop', ...args])
    expect(code).toBe(0)
    const warning = 'warning: unhandled rejection in user code:'
    expect(stderr).toContain(`${warning} the loop forgot this\n${warning} the judge forgot this\n`)
    expect(readResults(output).rows[0]?.runs[0]?.['success']).toBe(true)
  })

  it('starts nothing more when no run can be answered, and keeps what was used up', async () => {
    const upstream = await endpoint((_, response) => refuse(response, 401, 'wrong key'))
    const output = path.join(temporaryFolder(), 'results.json')
    const args = [...adder, ...numbered(40), ...at(upstream.url), '--batch-size', '3', '-o', output]
    const { code, stdout } = await osmosis(['eval', 'loop', ...args])
    expect(code).toBe(1)
    expect(stdout).toContain('Evaluation    adder  stopped early\n')
    expect(stdout).toMatch(/^Stopped {7}The policy answered 401: .*wrong key/m)
    expect(stdout).toContain('Runs          40 rows × 1 run = 40  (3 done)\n')
    const { summary, rows } = readResults(output)
    expect(summary).toMatchObject({
      total_rows: 3,
      total_runs: 3,
      stopped_early: true,
      stop_reason: expect.stringMatching(/^The policy answered 401: .*wrong key/),
    })
    expect(rows.map((row) => row.row_index)).toEqual([0, 1, 2])
    expect(upstream.received).toHaveLength(3)
  })

  it('has stopped nothing when the last run was the first that could not be answered', async () => {
    const calls = [{ id: 'a', type: 'function', function: { name: 'add', arguments: '{}' } }]
    const upstream = await endpoint((request, response) => {
      if (lastText(request) !== 'q0') return refuse(response, 403, 'no more credit')
      const message = { role: 'assistant', content: null, tool_calls: calls }
      const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
      response.end(JSON.stringify({ choices: [{ message, finish_reason: 'tool_calls' }], usage }))
    })
    const output = path.join(temporaryFolder(), 'results.json')
    const args = [...adder, ...numbered(1), ...at(upstream.url), '-o', output]
    const { code, stdout, stderr } = await osmosis(['eval', 'loop', ...args])
    expect([code, stdout]).toEqual([1, expect.stringContaining('adder  finished\n')])
    expect(stderr).toContain('error: reward scored no run of m1.\n')
    const { summary, rows } = readResults(output)
    expect(summary).toMatchObject({ stopped_early: false, total_tokens: 7 })
    expect(summary).not.toHaveProperty('stop_reason')
    expect(rows[0]?.runs).toEqual([
      {
        run_index: 0,
        success: false,
        scores: {},
        duration_ms: expect.any(Number),
        tokens: 7,
        error: expect.stringContaining('The policy answered 403: '),
      },
    ])
  })

  it('stops for a baseline that nobody answers for, and says which of the two it is', async () => {
    const baseline = ['--baseline-model', 'm0', '--baseline-base-url', 'http://127.0.0.1:1/v1']
    const policy = ['--policy', 'policies/adding.ts']
    const args = ['eval', 'loop', ...adder, ...sums, ...policy, ...baseline]
    const { code, stdout, stderr } = await osmosis(args)
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(
        /^Stopped {7}baseline: The policy at http:\/\/127\.0\.0\.1:1\/v1 cannot be reached: /m,
      ),
    ])
    expect(stdout).toContain('4 rows × 1 run × 2 models = 8  (2 done)')
    expect(stderr).toContain('error: reward scored no run of m0.\n')
  })

  it.each([429, 500, 502])('goes on after a run that was answered %i', async (status) => {
    const upstream = await endpoint((request, response) => {
      if (lastText(request) === 'q0') refuse(response, status, 'not now')
      else say(response, '5')
    })
    const output = path.join(temporaryFolder(), 'results.json')
    const args = [...adder, ...numbered(3), ...at(upstream.url), '-o', output]
    const { code } = await osmosis(['eval', 'loop', ...args], noRetries)
    const { summary, rows } = readResults(output)
    expect([code, summary.stopped_early, rows.length]).toEqual([0, false, 3])
    expect(rows[0]?.runs[0]?.['error']).toContain(`answered ${status}: not now`)
  })
})

describe('osmosis eval loop, on Ctrl-C', () => {
  it('writes the results of what has ended, and leaves out what it cut off', async () => {
    const upstream = await endpoint((request, response) => {
      if (lastText(request) !== 'q2') say(response, '5')
    })
    const output = path.join(temporaryFolder(), 'results.json')
    const args = [...adder, ...numbered(5), ...at(upstream.url), '-o', output]
    const command = startOsmosis(['eval', 'loop', ...args])
    await command.printed(/Row 1 run 0: OK/)
    await expect.poll(() => upstream.received.length).toBe(3)
    command.child.kill('SIGINT')
    const { code, stdout } = await command.finished
    expect([code, stdout]).toEqual([130, expect.stringContaining('5  (2 done)\n')])
    const { summary, rows } = readResults(output)
    expect(summary).toMatchObject({
      total_rows: 2,
      total_runs: 2,
      stopped_early: true,
      stop_reason: 'interrupted',
    })
    expect(rows.map(({ runs }) => runs.map((run) => run['scores']))).toEqual([
      [{ reward: 1 }],
      [{ reward: 0 }],
    ])
  })

  it('waits neither for an eval function nor for a policy that does not answer', async () => {
    const output = path.join(temporaryFolder(), 'results.json')
    const options = ['--eval-fn', `${rewards}:hanging`, '--batch-size', '2', '-o', output]
    const policies = ['--policy', 'policies/adding.ts', '--baseline-policy', 'policies/silent.ts']
    const one = ['--offset', '2', '--limit', '1']
    const command = startOsmosis([
      'eval',
      'loop',
      ...adder,
      ...sums,
      ...policies,
      ...options,
      ...one,
    ])
    await command.printed(/judging 30/)
    command.child.kill('SIGINT')
    expect((await command.finished).code).toBe(130)
    expect(readResults(output).summary).toMatchObject({ total_runs: 0, stopped_early: true })
  })
})
