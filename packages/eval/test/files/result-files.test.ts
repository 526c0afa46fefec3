import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { defaultOutputRoot, toScorer } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { evaluate, placeOf } from '../evaluations.ts'
import { failedWorkflow, rewarded, rolloutResult, sample } from '../rollout-results.ts'
import { newRun } from '../stored-evaluations.ts'

it('holds the items and metrics that the evaluation returned', async () => {
  const outputRoot = defaultOutputRoot(await temporaryFolder())
  await using store = await newRun(outputRoot, 2, 2)
  const result = await evaluate(
    2,
    (order) => (placeOf(order) === '1/1' ? failedWorkflow('boom “×”') : rewarded(1)),
    { n: 2, maxInFlight: 3, store },
  )
  expect(result.location).toBe(join(outputRoot, 'r'))
  expect((await readdir(store.location)).toSorted()).toEqual([
    'events.jsonl',
    'index.jsonl',
    'manifest.json',
    'metrics.json',
    'progress.json',
    'samples',
    'trajectories',
  ])

  const ids = result.items.map((item) => item.rollout_id)
  const ended = '"status": "success", "reward": 1, "tokens": 15, "duration_ms": 12.5'
  expect(await readFile(join(store.location, 'index.jsonl'), 'utf8')).toBe(`\
{"row_index": 0, "run_index": 0, "source_row_index": 0, "rollout_id": "${ids[0]}", ${ended}}
{"row_index": 0, "run_index": 1, "source_row_index": 0, "rollout_id": "${ids[1]}", ${ended}}
{"row_index": 1, "run_index": 0, "source_row_index": 1, "rollout_id": "${ids[2]}", ${ended}}
{"row_index": 1, "run_index": 1, "source_row_index": 1, "rollout_id": "${ids[3]}", "status": "failed", "tokens": 15, "duration_ms": 12.5, "error_type": "agent_error", "error_message": "boom “×”"}
`)
  expect(JSON.parse(await readFile(join(store.location, 'metrics.json'), 'utf8'))).toMatchObject({
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
    summary: result.model.summary,
  })
})

it('lists the rewards of a rollout with several samples', async () => {
  await using store = await newRun(await temporaryFolder(), 1)
  const samples = new Map([sample('left', { reward: 1 }), sample('right', { reward: 0 })])
  const { items } = await evaluate(1, () => rolloutResult({ samples }), { store })
  expect(await readFile(join(store.location, 'index.jsonl'), 'utf8')).toBe(
    `{"row_index": 0, "run_index": 0, "source_row_index": 0, "rollout_id": "${items[0]?.rollout_id}", "status": "success", "reward": 0.5, "tokens": 15, "duration_ms": 12.5, "sample_rewards": {"left":1,"right":0}}\n`,
  )
})

it('holds the scores, and why there are none', async () => {
  await using store = await newRun(await temporaryFolder(), 1)
  const { items } = await evaluate(1, () => rewarded(1), {
    store,
    scorers: [
      toScorer('same', ({ reward }: { reward: number }) => reward),
      toScorer('broken', () => NaN),
    ],
  })
  const error = '"score_errors": {"broken":"it must return a finite number, got NaN"}'
  const place = '"row_index": 0, "run_index": 0, "source_row_index": 0'
  const cost = '"tokens": 15, "duration_ms": 12.5'
  expect(await readFile(join(store.location, 'index.jsonl'), 'utf8')).toBe(`\
{${place}, "rollout_id": "${items[0]?.rollout_id}", "status": "success", "reward": 1, "scores": {"same":1}, ${error}, ${cost}}
`)
})
