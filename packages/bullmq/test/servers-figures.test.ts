import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { expect } from 'vitest'

import {
  type Metrics,
  metricsIn,
  post,
  temporaryFolder,
  withPrograms,
} from '../../../test/kit/index.ts'
import { startServers, type ServerUnderTest } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

async function metricsOf({ url }: ServerUnderTest): Promise<Metrics> {
  return metricsIn(await (await fetch(`${url}/metrics`)).text())
}

/** The log lines of both servers. */
function messages(...servers: ServerUnderTest[]): string[] {
  return servers.flatMap(({ log }) => log.map(({ message }) => message))
}

it('metrics show the queue on every server, and deliveries on the server that made them', async () => {
  const { a, b, controller, worker } = await startServers({ workers: 0 })
  await a.post({ rollout_id: 'queued' })
  for (const server of [a, b]) {
    const metrics = await metricsOf(server)
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
  // It waits for its grading while its completion is delivered.
  await expect
    .poll(async () => (await metricsOf(a)).get('osmosis_queue_undelivered'), { interval: 200 })
    .toBe(1)
  for (const server of [a, b]) {
    expect((await metricsOf(server)).get('osmosis_rollouts_in_flight')).toBe(1)
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

it('metrics show that Redis is unreachable', async () => {
  const { a, redis } = await startServers({ workers: 0 })
  await redis.kill()

  const metrics = await metricsOf(a)
  expect(metrics.get('osmosis_queue_up')).toBe(0)
  expect(metrics.get('osmosis_workers')).toBeNaN()
})

it('the document of a rollout has the reports of both acknowledgements, whichever servers received them', async () => {
  const artifactRoot = await temporaryFolder()
  const { a, b, controller } = await startServers({ artifactRoot })
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
