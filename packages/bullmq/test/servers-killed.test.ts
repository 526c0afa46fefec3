import { withPrograms } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { killDuringDelivery, alone } from './server-processes.ts'
import { startServers } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('another server continues when one is killed while it waits for the answer to a callback', async () => {
  const body = await killDuringDelivery('completion')
  expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
})

it(
  'another server continues when one is killed while it waits for the answer to a grader callback',
  { tags: 'slow' },
  async () => {
    const body = await killDuringDelivery('grader')
    expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
  },
)

it(
  'a caller without an answer from a killed server can repeat its request on another one',
  { tags: 'slow' },
  async () => {
    const servers = await startServers({ workers: 0 })
    const { controller } = servers
    const doomed = await alone(servers)
    await doomed.end()
    const b = await servers.startServer()

    expect((await b.post()).status).toBe(202)
    expect((await b.post({ label: 'no' })).status).toBe(409)
    await servers.worker()
    expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
    expect(controller.policyHeaders).toHaveLength(1)
  },
)
