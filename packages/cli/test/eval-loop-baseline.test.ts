import { describe, expect, it } from 'vitest'

import { evaluate } from './loop-evaluation.ts'
import { endpoint, say } from './model-endpoint.ts'
import { osmosis } from './osmosis.ts'

const adder = ['-m', 'rollouts/agent-loops/adder.ts:agentLoop']
const data = ['-d', 'data/sums.jsonl']
const policy = ['--policy', 'policies/adding.ts']

describe('osmosis eval loop with a baseline', () => {
  it('runs everything for both, and keeps their scores apart', async () => {
    const { code, stdout, results } = await evaluate(
      ...adder,
      ...data,
      ...policy,
      '--limit',
      '2',
      '--baseline-policy',
      'policies/echo.ts',
    )
    expect(code).toBe(0)
    expect(stdout).toContain('] Row 1 run 0 (primary): FAILED')
    expect(stdout).toContain('] Row 1 run 0 (baseline): OK')
    expect(stdout).toContain('Runs          2 rows × 1 run × 2 models = 4\n')
    expect(stdout).toMatch(/^reward +policies\/adding\.ts \(primary\) +1 ± 0 .* 50\.0 %$/m)
    expect(stdout).toMatch(/^reward +policies\/echo\.ts \(baseline\) +0 ± 0 .* 0\.0 %$/m)
    expect(stdout).not.toContain('\u001B')
    expect(results.config['baseline_model']).toBe('policies/echo.ts')
    expect(
      results.rows.map(({ runs }) => runs.map((run) => [run['model_tag'], run['scores']])),
    ).toEqual([
      [
        ['primary', { reward: 1 }],
        ['baseline', { reward: 0 }],
      ],
      [
        ['primary', {}],
        ['baseline', { reward: 0 }],
      ],
    ])
    expect(results.summary).toMatchObject({
      total_rows: 2,
      total_runs: 4,
      eval_fns: { reward: { mean: 1, pass_rate: 0.5, scored_runs: 1 } },
    })
    expect(results.model_summaries).toMatchObject([
      {
        model: 'policies/adding.ts',
        model_tag: 'primary',
        total_runs: 2,
        total_tokens: 28,
        eval_fns: { reward: { mean: 1 } },
      },
      {
        model: 'policies/echo.ts',
        model_tag: 'baseline',
        total_runs: 2,
        eval_fns: { reward: { mean: 0, scored_runs: 2 } },
      },
    ])
    const tokens = (results.model_summaries ?? []).map((model) => Number(model['total_tokens']))
    expect(results.summary['total_tokens']).toBe(tokens.reduce((sum, count) => sum + count))
  })

  it('asks it at the address, and with the key, that are meant for it', async () => {
    const upstream = await endpoint((_, response) => say(response, '5'))
    const other = await endpoint((_, response) => say(response, '5'))
    const one = [...adder, ...data, '--limit', '1']
    const primary = `--base-url ${upstream.url}/v1 --model org/a:b --api-key-env MY_KEY`.split(' ')
    const asked = ({ received }: typeof upstream): unknown[] =>
      received.map(({ body, headers }) => [body['model'], headers.authorization])
    const env = { MY_KEY: 'sk-1', OTHER_KEY: 'sk-2' }

    const same = await osmosis(['eval', 'loop', ...one, ...primary, '--baseline-model', 'm0'], env)
    expect([same.code, same.stdout]).toEqual([0, expect.stringMatching(/^org\/a:b \(primary\) /m)])
    expect(asked(upstream)).toEqual([
      ['org/a:b', 'Bearer sk-1'],
      ['m0', 'Bearer sk-1'],
    ])
    const elsewhere = ['--baseline-model', 'org/a:b', '--baseline-base-url', other.url]
    await osmosis(['eval', 'loop', ...one, ...primary, ...elsewhere], env)
    await osmosis(
      ['eval', 'loop', ...one, ...primary, ...elsewhere, '--baseline-api-key-env', 'OTHER_KEY'],
      env,
    )
    expect(asked(other)).toEqual([
      ['org/a:b', undefined],
      ['org/a:b', 'Bearer sk-2'],
    ])
  })
})
