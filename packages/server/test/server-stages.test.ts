import type { ServerResponse } from 'node:http'

import type { ExecutionBackend, RolloutRequest } from '@osmosis/protocol'
import { runToEnd, settled, withStages } from '@osmosis/server/execution'
import { counted, createServerShell, owned, OwnershipLog } from '@osmosis/server/protocols'
import { expect, it } from 'vitest'

import { HttpPeer, metricsIn, recordingLogger, type PeerRequest } from '../../../test/kit/index.ts'

class Collector extends HttpPeer {
  readonly states: string[] = []

  protected override receive({ body }: PeerRequest, response: ServerResponse): void {
    const states = JSON.stringify(body).matchAll(/"status","value":\{"stringValue":"(\w+)/g)
    this.states.push(...[...states].map(([, state = '']) => state))
    response.writeHead(200).end('{}')
  }
}

const request = { rolloutId: 'r1', initialMessages: [], grade: true } as unknown as RolloutRequest

it.each<[string, ExecutionBackend['execute']]>([
  [
    'throws',
    () => {
      throw new Error('the pool broke')
    },
  ],
  ['ends without a result', async function* () {}],
  [
    'throws between workflow and grading',
    async function* () {
      yield { type: 'started' }
      const outcome = { status: 'success', failure: null, warnings: [] } as const
      yield { type: 'workflow', outcome, samples: new Map() }
      throw new Error('the pool broke')
    },
  ],
])('counts one failure, and reports it, when its backend %s', async (_what, execute) => {
  await using collector = await new Collector().start()
  const logger = recordingLogger([])
  const owner = { endpoint: collector.url, serverId: 'worker-1', serverName: 'host' }
  const ownership = new OwnershipLog(owner, logger)
  const broken = { execute } as ExecutionBackend
  let backend = broken
  const shell = createServerShell({ logger }, ({ metrics }) => {
    backend = withStages(broken, settled, counted(metrics), owned(ownership))
    return {
      title: 'Worker',
      unauthorized: 'Unauthorized',
      routes: [],
      resume: () => {},
      inFlight: () => 0,
      endWork: () => {},
    }
  })

  expect(await runToEnd(backend, request)).toMatchObject({ kind: 'failed' })

  const text = await (await shell.fetch(new Request('http://worker/metrics'))).text()
  const ended = [...metricsIn(text)].filter(
    ([name, count]) => name.startsWith('osmosis_rollouts_ended_total') && count > 0,
  )
  expect(ended).toEqual([[expect.stringContaining('outcome="failure"'), 1]])
  await ownership.close()
  await shell.close()
  expect(collector.states.filter((state) => state === 'failure')).toHaveLength(1)
  expect(collector.states.at(-1)).toBe('failure')
})
