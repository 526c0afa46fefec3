import { expect, it } from 'vitest'

import { OwnershipCollector } from '../../../test/kit/index.ts'
import { loopOf, startApp } from './running-app.ts'

it('a collector receives each state of each rollout of a loop, with the run that it belongs to', async () => {
  await using collector = await new OwnershipCollector().start()
  await using running = await startApp({
    ownership: { endpoint: collector.url, serverId: 'pod-7', serverName: 'host' },
    loop: loopOf((ctx) =>
      ctx.request.rolloutId === 'good' ? ctx.complete([]) : ctx.error('too hard'),
    ),
  })
  const metadata = { osmosis_observability: { run_id: 'run-1', run_name: 'first' } }
  await running.init({ rollout_id: 'good', metadata })
  await running.trainer.results()
  await running.init({ rollout_id: 'bad' })
  await running.trainer.results(2)
  await running.app.drain()
  await running.app.close()

  const run = { run_id: 'run-1', run_name: 'first' }
  const record = (rollout_id: string, status: string, sequence: number): object => ({
    event: 'rollout.ownership',
    rollout_id,
    server_id: 'pod-7',
    server_name: 'host',
    ...(rollout_id === 'good' ? run : {}),
    status,
    event_sequence: String(sequence),
  })
  expect(collector.records).toStrictEqual([
    ...['queued', 'running', 'success'].map((status, n) => record('good', status, n + 1)),
    ...['queued', 'running', 'failure'].map((status, n) => record('bad', status, n + 1)),
  ])
})
