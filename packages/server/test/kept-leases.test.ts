import { expect, it } from 'vitest'

import {
  storedRollouts,
  LeaseClient,
  LeaseHandle,
  type PolledResult,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { leasing, type LeasingServer } from './leasing-server.ts'
import { workflowOf } from './running-server.ts'

/** The same lease, at another server. */
function at(server: LeasingServer, { accepted }: LeaseHandle): LeaseHandle {
  return new LeaseHandle(new LeaseClient(server), accepted)
}

it('a result is available after a restart, with the same bytes, to its holder only', async () => {
  const outboxDir = await temporaryFolder()
  let handle: LeaseHandle
  let before: PolledResult
  {
    await using first = await leasing({ outboxDir })
    handle = await first.start()
    before = await handle.until()
  }
  await using second = await leasing({ outboxDir })
  const again = at(second, handle)
  expect((await again.once()).text).toBe(before.text)
  expect((await again.read(undefined, 'another')).status).toBe(403)
  await expect(second.start()).rejects.toThrow('409')
  const cancelled = await second.client.cancel({ ids: ['r1'] })
  expect(cancelled).toStrictEqual({ r1: 'not_found' })
  const status: unknown = await (await fetch(`${second.url}/rollout/r1/status`)).json()
  expect(status).toMatchObject({ status: 'success', reward: 1 })
  const health: unknown = await (await fetch(`${second.url}/health`)).json()
  expect(health).toMatchObject({ retained_results: 1, lifecycle: { active_rollouts: 0 } })
})

it('a rollout that a shutdown ended reports that end on every route', async () => {
  const outboxDir = await temporaryFolder()
  let handle: LeaseHandle
  {
    await using first = await leasing({
      outboxDir,
      workflow: workflowOf(() => new Promise(() => undefined)),
    })
    handle = await first.start()
  }
  await using second = await leasing({ outboxDir })
  expect(await at(second, handle).once()).toMatchObject({
    status: 'failure',
    err_category: 'agent_error',
    err_message: 'rollout server shut down',
  })
})

it('a result is forgotten after its time, which also passes between two processes', async () => {
  const outboxDir = await temporaryFolder()
  const leases = { waitSeconds: 0.05, leaseSeconds: 1, retentionSeconds: 1 }
  let handle: LeaseHandle
  {
    await using first = await leasing({ outboxDir, leases })
    handle = await first.start()
    await handle.until()
  }
  {
    await using second = await leasing({ outboxDir, leases })
    const again = at(second, handle)
    await expect.poll(async () => (await again.read()).status).toBe(404)
    // The id is free again.
    handle = await second.start()
    await handle.until()
    await expect.poll(async () => storedRollouts(outboxDir)).toHaveLength(1)
  }
  const shorter = { ...leases, retentionSeconds: 0.001 }
  await using third = await leasing({ outboxDir, leases: shorter })
  expect((await at(third, handle).read()).status).toBe(404)
  await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
})

it('results of an earlier process count, and make room when they were fetched a lease ago', async () => {
  const outboxDir = await temporaryFolder()
  const leases = { waitSeconds: 0.05, leaseSeconds: 0.2, maxRetained: 2 }
  {
    await using first = await leasing({ outboxDir, leases })
    await (await first.start({ rollout_id: 'fetched' })).until()
    await first.start({ rollout_id: 'not fetched' })
  }
  await using second = await leasing({ outboxDir, leases })
  const next = async (rollout_id: string): Promise<number> =>
    (await second.post(second.body({ rollout_id }))).status
  expect(await next('second')).toBe(429)
  await expect.poll(async () => next('second')).toBe(202)
  expect(await next('third')).toBe(429)
  await expect.poll(async () => storedRollouts(outboxDir)).toHaveLength(2)
})
