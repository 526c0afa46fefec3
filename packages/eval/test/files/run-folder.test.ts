import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'

import { createRunFolder, defaultOutputRoot, toScorer } from '@osmosis/eval'
import { temporaryFolder } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { evaluate, modelThat, placeOf } from '../evaluations.ts'
import { failedWorkflow, rewarded, rolloutResult, sample } from '../rollout-results.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

it('holds the records and metrics that the evaluation returned', async () => {
  const outputRoot = defaultOutputRoot(await temporaryFolder())
  const folder = await createRunFolder({ outputRoot, runName: 'multiply-1' })
  const result = await evaluate(
    2,
    (order) => (placeOf(order) === '1/1' ? failedWorkflow('boom “×”') : rewarded(1)),
    { n: 2, maxInFlight: 3, sink: folder },
  )
  expect(result.location).toBe(join(outputRoot, 'multiply-1'))
  expect((await readdir(folder.location)).toSorted()).toEqual(['index.jsonl', 'metrics.json'])

  const ids = result.records.map(({ rolloutId }) => rolloutId)
  const ended = '"status": "success", "reward": 1, "tokens": 15, "duration_ms": 12.5'
  expect(await readFile(folder.indexFile, 'utf8')).toBe(`\
{"row_index": 0, "run_index": 0, "source_row_index": 0, "rollout_id": "${ids[0]}", ${ended}}
{"row_index": 0, "run_index": 1, "source_row_index": 0, "rollout_id": "${ids[1]}", ${ended}}
{"row_index": 1, "run_index": 0, "source_row_index": 1, "rollout_id": "${ids[2]}", ${ended}}
{"row_index": 1, "run_index": 1, "source_row_index": 1, "rollout_id": "${ids[3]}", "status": "failed", "tokens": 15, "duration_ms": 12.5, "error_type": "agent_error", "error_message": "boom “×”"}
`)
  expect(JSON.parse(await readFile(folder.metricsFile, 'utf8'))).toEqual({
    eval_run: {
      id: result.id,
      status: 'finished',
      name: 'multiply-1',
      dataset_name: 'data/multiply.jsonl',
      model_name: 'policies/arithmetic.ts',
      rollout_name: 'multiply',
      duration_ms: Math.round(result.durationMs * 1000) / 1000,
      started_at: result.startedAt.toISOString(),
      completed_at: result.completedAt.toISOString(),
    },
    summary: {
      total_samples: 4,
      completed_samples: 4,
      graded: 3,
      passed: 3,
      failed: 1,
      skipped: 0,
      pass_rate: 0.75,
      pass_threshold: 1,
      tokens_used: 60,
      prompt_tokens: 40,
      completion_tokens: 20,
      reward_stats: { mean: 1, median: 1, std: 0, min: 1, max: 1 },
      n_runs: 2,
      pass_at_k: [
        { k: 1, value: 0.75 },
        { k: 2, value: 1 },
      ],
      failures: [{ error_type: 'agent_error', count: 1, example: 'boom “×”' }],
      without_model_calls: 0,
    },
  })
})

it('lists the rewards of a rollout with several samples', async () => {
  const folder = await createRunFolder({ outputRoot: await temporaryFolder(), runName: 'a' })
  const samples = new Map([sample('left', { reward: 1 }), sample('right', { reward: 0 })])
  const { records } = await evaluate(1, () => rolloutResult({ samples }), { sink: folder })
  expect(await readFile(folder.indexFile, 'utf8')).toBe(
    `{"row_index": 0, "run_index": 0, "source_row_index": 0, "rollout_id": "${records[0]?.rolloutId}", "status": "success", "reward": 0.5, "tokens": 15, "duration_ms": 12.5, "sample_rewards": {"left":1,"right":0}}\n`,
  )
})

it('holds the scores, why there are none, and which model they are of', async () => {
  const folder = await createRunFolder({ outputRoot: await temporaryFolder(), runName: 'a' })
  const { records } = await evaluate(1, () => rewarded(1), {
    sink: folder,
    baseline: { ...modelThat(() => rewarded(0)), name: 'old' },
    scorers: [
      toScorer('same', ({ reward }: { reward: number }) => reward),
      toScorer('broken', () => NaN),
    ],
  })
  const error = '"score_errors": {"broken":"it must return a finite number, got NaN"}'
  const place = '"row_index": 0, "run_index": 0, "source_row_index": 0'
  const cost = '"tokens": 15, "duration_ms": 12.5'
  expect(await readFile(folder.indexFile, 'utf8')).toBe(`\
{${place}, "model_tag": "primary", "rollout_id": "${records[0]?.rolloutId}", "status": "success", "reward": 1, "scores": {"same":1}, ${error}, ${cost}}
{${place}, "model_tag": "baseline", "rollout_id": "${records[1]?.rolloutId}", "status": "success", "reward": 0, "scores": {"same":0}, ${error}, ${cost}}
`)
  const stats = (value: number): object => ({
    mean: value,
    median: value,
    std: 0,
    min: value,
    max: value,
  })
  const scores = (value: number): object => ({
    same: { graded: 1, passed: value, pass_rate: value, stats: stats(value) },
    broken: { graded: 0, passed: 0, pass_rate: 0 },
  })
  expect(JSON.parse(await readFile(folder.metricsFile, 'utf8'))).toMatchObject({
    eval_run: { model_name: 'policies/arithmetic.ts', baseline_model_name: 'old' },
    summary: { total_samples: 1, reward_stats: stats(1), scores: scores(1) },
    baseline_summary: { total_samples: 1, reward_stats: stats(0), scores: scores(0) },
  })
})

it('is kept up to date while the evaluation runs, but not after every item', async () => {
  const outputRoot = await temporaryFolder()
  const folder = await createRunFolder({ outputRoot, runName: 'a', refreshIntervalMs: 3_600_000 })
  const seen: unknown[] = []
  await evaluate(
    3,
    async () => {
      seen.push(await readFile(folder.metricsFile, 'utf8').then(statusAndTotal, () => 'no file'))
      return rewarded(1)
    },
    { sink: folder },
  )
  seen.push(statusAndTotal(await readFile(folder.metricsFile, 'utf8')))
  expect(seen).toEqual(['no file', ['running', 1], ['running', 1], ['finished', 3]])
})

it('says why an evaluation is incomplete', async () => {
  const folder = await createRunFolder({ outputRoot: await temporaryFolder(), runName: 'a' })
  await evaluate(1, () => rewarded(1), {
    sink: folder,
    signal: AbortSignal.abort(new Error('interrupted')),
  })
  const metrics: unknown = JSON.parse(await readFile(folder.metricsFile, 'utf8'))
  expect(metrics).toMatchObject({
    eval_run: { status: 'incomplete', incomplete_reason: 'interrupted' },
    summary: { total_samples: 0 },
  })
  expect(await readFile(folder.indexFile, 'utf8')).toBe('')
})

it('is never used for a second run', async () => {
  const outputRoot = await temporaryFolder()
  const { location } = await createRunFolder({ outputRoot, runName: 'a' })
  expect(await osmosisErrorOf(() => createRunFolder({ outputRoot, runName: 'a' }))).toEqual({
    code: 'invalid_config',
    message: `The run folder ${location} exists already, and results are not overwritten. Pass another --name or --output.`,
  })
})

it('cannot be created under a file', async () => {
  const root = await temporaryFolder({ file: '' })
  const outputRoot = join(root, 'file', 'evals')
  const { code, message } = await osmosisErrorOf(() =>
    createRunFolder({ outputRoot, runName: 'a' }),
  )
  expect([code, message]).toEqual([
    'invalid_config',
    expect.stringContaining(`Cannot create the run folder ${join(outputRoot, 'a')}: ENOTDIR`),
  ])
})

it('that has vanished ends the evaluation with an error', async () => {
  const folder = await createRunFolder({ outputRoot: await temporaryFolder(), runName: 'a' })
  await rm(folder.location, { recursive: true })
  await expect(evaluate(2, () => rewarded(1), { sink: folder })).rejects.toThrow('ENOENT')
})

function statusAndTotal(text: string): [status: string, total: number] {
  const { eval_run: run, summary } = JSON.parse(text) as {
    eval_run: { status: string }
    summary: { total_samples: number }
  }
  return [run.status, summary.total_samples]
}
