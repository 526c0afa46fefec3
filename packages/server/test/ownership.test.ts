import { OwnershipLog } from '@osmosis/server/protocols'
import { expect, it } from 'vitest'

import {
  HttpPeer,
  OwnershipCollector,
  post,
  recordingLogger,
  type LogLine,
} from '../../../test/kit/index.ts'
import { startServer, workflowOf } from './running-server.ts'

it('a collector receives each state of each rollout, with the run that it belongs to', async () => {
  await using collector = await new OwnershipCollector().start()
  const ownership = {
    endpoint: collector.url,
    serverId: 'pod-7',
    serverName: 'host',
    namespace: 'blue',
  }
  await using running = await startServer({ ownership })
  const run = { run_id: 'run-1', run_name: 'x'.repeat(600) }
  await running.post({ metadata: { osmosis_observability: run } })
  await running.controller.bodies()
  await running.server.close()

  expect(collector.records).toStrictEqual(
    ['queued', 'running', 'grading', 'success'].map((status, index) => ({
      event: 'rollout.ownership',
      rollout_id: 'r1',
      server_id: 'pod-7',
      server_name: 'host',
      namespace: 'blue',
      run_id: 'run-1',
      run_name: 'x'.repeat(512),
      status,
      event_sequence: String(index + 1),
    })),
  )
  expect([...collector.paths]).toStrictEqual(['/v1/logs'])
  expect(collector.resource).toStrictEqual({
    attributes: [{ key: 'service.name', value: { stringValue: 'osmosis-rollout-server' } }],
  })
})

it('a cancelled rollout is reported as cancelled, and an unreachable collector causes one log line', async () => {
  await using collector = await new OwnershipCollector().start()
  const ownership = { endpoint: collector.url, serverId: 'pod-7', serverName: 'host' }
  await using running = await startServer({
    ownership,
    workflow: workflowOf(
      (ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', resolve)),
    ),
  })
  await running.post()
  await post(`${running.url}/rollout/cancel`, { all: true })
  await running.controller.bodies()
  await collector.until(() => collector.records.some(({ status }) => status === 'cancelled'))

  const nowhere = { endpoint: 'http://127.0.0.1:1', serverId: 'pod-8', serverName: 'host' }
  await using other = await startServer({ ownership: nowhere })
  await other.post({ rollout_id: 'a' })
  await other.post({ rollout_id: 'b' })
  await other.controller.until(() => other.controller.callbacks.length === 4)
  await other.server.close()
  expect(other.log.filter(({ message }) => message.startsWith('the ownership'))).toHaveLength(1)
})

class SilentCollector extends HttpPeer {
  protected override receive(): void {}
}

it('a collector that never answers delays the end of the server by three seconds, however many records wait', async () => {
  await using collector = await new SilentCollector().start()
  const log: LogLine[] = []
  const options = { endpoint: collector.url, serverId: 'pod-7', serverName: 'host' }
  const ownership = new OwnershipLog(options, recordingLogger(log))
  for (let n = 0; n < 500; n += 1) ownership.begin({ rolloutId: `r${n}`, metadata: null })('queued')
  const began = performance.now()
  await ownership.close()

  expect(performance.now() - began).toBeLessThan(4000)
  expect(log).toMatchObject([
    { level: 'warn', message: 'the ownership of rollouts is not reported: no answer in 3000 ms' },
  ])
})
