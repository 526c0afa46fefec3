import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { type Metrics, metricsIn, post, temporaryFolder, withPrograms } from '@osmosis/testing/kit'
import { expect } from 'vitest'

import { startFronts, type FrontUnderTest } from './fronts-under-test.ts'

const { it } = withPrograms('redis-server')

async function metricsOf({ url }: FrontUnderTest): Promise<Metrics> {
  return metricsIn(await (await fetch(`${url}/metrics`)).text())
}

/** What both fronts have logged. */
function messages(...fronts: FrontUnderTest[]): string[] {
  return fronts.flatMap(({ log }) => log.map(({ message }) => message))
}

it('metrics show the queue at every front, and what was told at the one that told it', async () => {
  const { a, b, controller, worker } = await startFronts({ workers: 0 })
  await a.post({ rollout_id: 'queued' })
  for (const front of [a, b]) {
    const metrics = await metricsOf(front)
    expect(metrics.get('osmosis_rollouts{state="queued"}')).toBe(1)
    expect(metrics.get('osmosis_rollouts_in_flight')).toBe(1)
    expect(metrics.get('osmosis_queue_up')).toBe(1)
  }

  const { promise: mayAnswer, resolve: answer } = Promise.withResolvers<void>()
  controller.answers['completion'] = [
    async (response) => {
      await mayAnswer
      response.end()
    },
  ]
  await worker()
  // It waits to be graded, and is being told.
  await expect
    .poll(async () => (await metricsOf(a)).get('osmosis_queue_undelivered'), { interval: 200 })
    .toBe(1)
  for (const front of [a, b]) {
    expect((await metricsOf(front)).get('osmosis_rollouts_in_flight')).toBe(1)
  }
  answer()
  await controller.bodies()
  await expect.poll(() => messages(a, b)).toContain('rollout ended')
  await expect
    .poll(async () => (await metricsOf(b)).get('osmosis_rollouts_in_flight'), { interval: 200 })
    .toBe(0)
  const both = await Promise.all([metricsOf(a), metricsOf(b)])
  const total = (figure: string): number =>
    both.reduce((sum, metrics) => sum + (metrics.get(figure) ?? 0), 0)
  const ended = 'outcome="success",category="none",phase="grading"'
  expect(total(`osmosis_rollouts_ended_total{${ended}}`)).toBe(1)
  for (const phase of ['queue', 'workflow', 'grading']) {
    expect(total(`osmosis_rollout_phase_seconds_count{phase="${phase}"}`)).toBe(1)
  }
  expect(total('osmosis_callbacks_total{kind="grader",outcome="acknowledged"}')).toBe(1)
})

it('metrics without Redis say so', async () => {
  const { a, redis } = await startFronts({ workers: 0 })
  await redis.kill()

  const metrics = await metricsOf(a)
  expect(metrics.get('osmosis_queue_up')).toBe(0)
  expect(metrics.get('osmosis_workers')).toBeNaN()
})

it('the document of a rollout has the reports of both acknowledgements, whichever fronts got them', async () => {
  const artifactRoot = await temporaryFolder()
  const { a, b, controller } = await startFronts({ artifactRoot })
  const report = { samples: { main: { llm_call_metrics: [{ prompt_tokens: 12 }] } } }
  controller.answers['completion'] = [
    (response) => response.writeHead(200).end(JSON.stringify({ trajectory: report })),
  ]
  await a.post({ extra_fields: { row_index: 4 } })
  await controller.bodies()
  await expect.poll(() => messages(a, b)).toContain('rollout ended')

  const text = await readFile(path.join(artifactRoot, 'r1/trajectory.json'), 'utf8')
  expect(JSON.parse(text)).toMatchObject({
    session_id: 'r1',
    steps: [{ message: 'Is it?' }, { message: 'yes' }],
    extra: { osmosis: { reward: 1, request_extra_fields: { row_index: 4 } } },
  })
  expect(text).toContain('"prompt_tokens": 12')
  expect(await (await post(`${a.url}/rollout/cancel`, { ids: ['r1'] })).json()).toStrictEqual({
    dispositions: { r1: 'not_found' },
  })
})
