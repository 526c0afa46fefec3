import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import {
  type AcceptedLease,
  LeaseClient,
  LeaseHandle,
  metricsIn,
  type Metrics,
  post,
  storedRollouts,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { leasing, type LeasingServer } from './leasing-server.ts'
import { startServer } from './running-server.ts'

const minutes = 60_000
/** What takes a second at most is not waited for any longer than this. */
const soon = { timeout: 20_000 }

async function metricsOf({ url }: { url: string }): Promise<Metrics> {
  return metricsIn(await (await fetch(`${url}/metrics`)).text())
}

/** Results that a server holds for their callers: their number, and their bytes. */
async function heldBy(server: { url: string }): Promise<(number | undefined)[]> {
  const metrics = await metricsOf(server)
  return [metrics.get('osmosis_lease_results'), metrics.get('osmosis_lease_result_bytes')]
}

/** The same lease, at another server. */
function at(server: LeasingServer, { accepted }: LeaseHandle): LeaseHandle {
  return new LeaseHandle(new LeaseClient(server), accepted)
}

/** Changes lines of the journals of a server that has ended. */
function rewriteJournal(outboxDir: string, change: (line: string) => string): void {
  for (const name of readdirSync(outboxDir).filter((each) => /^journal-\d+\.jsonl$/.test(each))) {
    const file = path.join(outboxDir, name)
    writeFileSync(file, readFileSync(file, 'utf8').split('\n').map(change).join('\n'))
  }
}

/** Asks for a rollout until there is room for it. */
async function startWithRoom(server: LeasingServer, rollout_id: string): Promise<LeaseHandle> {
  const body = server.body({ rollout_id })
  let answer = new Response()
  await expect
    .poll(async () => (answer = await post(`${server.url}/rollout`, body)).status, soon)
    .toBe(202)
  return new LeaseHandle(new LeaseClient(server), (await answer.json()) as AcceptedLease)
}

describe('results that are stored for their callers', () => {
  it('count with their bytes, each of them once, however often it is fetched', async () => {
    await using running = await leasing()
    let [results, bytes] = [0, 0]
    for (const rollout_id of ['short', 'a-longer-name', 'the-longest-name-of-all']) {
      const handle = await running.start({ rollout_id })
      const { text } = await handle.until()
      await handle.once()
      results += 1
      bytes += Buffer.byteLength(text)
      expect(await heldBy(running)).toEqual([results, bytes])
    }
  })

  it('are forgotten at the end of their time, with their bytes and in the outbox', async () => {
    const outboxDir = await temporaryFolder()
    const leases = { waitSeconds: 0.05, leaseSeconds: 1, retentionSeconds: 0.2 }
    await using running = await leasing({ outboxDir, leases })
    // One after the other, so that each of them is forgotten at a time of its own.
    for (const rollout_id of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await running.start({ rollout_id })
      const end = { level: 'info', message: 'rollout ended', fields: { rollout_id } }
      await expect.poll(() => running.log).toContainEqual(end)
    }
    await expect.poll(async () => heldBy(running), soon).toEqual([0, 0])
    await expect.poll(async () => storedRollouts(outboxDir), soon).toEqual([])
  })

  it('leave their room to others, wave after wave', async () => {
    const leases = { waitSeconds: 0.05, leaseSeconds: 0.2, retentionSeconds: 0.3, maxRetained: 3 }
    await using running = await leasing({ leases })
    for (let wave = 0; wave < 4; wave += 1) {
      const ids = ['a', 'b', 'c'].map((name) => `${name}-${wave}`)
      const started = await Promise.all(ids.map(async (id) => startWithRoom(running, id)))
      expect(started.map(({ accepted }) => accepted.rollout_id)).toEqual(ids)
    }
  })

  it('leave the bytes to others that they had', async () => {
    const once = await leasing()
    const { text } = await (await once.start()).until()
    await once[Symbol.asyncDispose]()
    const leases = { waitSeconds: 0.05, leaseSeconds: 0.2, maxRetainedBytes: text.length * 2 }
    await using running = await leasing({ leases })
    // Each of them is fetched, so that it makes room a lease later.
    for (let wave = 0; wave < 5; wave += 1) {
      expect(await (await startWithRoom(running, `r${wave}`)).until()).toMatchObject({
        status: 'success',
      })
    }
    const [results = 0, bytes = 0] = await heldBy(running)
    expect([results > 0, bytes]).toEqual([true, results * text.length])
  })

  it('are stored for the rest of their time after a restart, which is counted from their end', async () => {
    const outboxDir = await temporaryFolder()
    const handles: LeaseHandle[] = []
    {
      await using first = await leasing({ outboxDir })
      for (const rollout_id of ['old', 'newer']) {
        handles.push(await first.start({ rollout_id }))
        await handles.at(-1)?.until()
      }
    }
    // The first of them ended a quarter of an hour ago, but for a second.
    const ages = [15 * minutes - 1000, 10 * minutes]
    rewriteJournal(outboxDir, (line) => {
      const end = /"line":"end","at":\d+/
      if (!end.test(line)) return line
      return line.replace(end, `"line":"end","at":${Date.now() - (ages.shift() ?? 0)}`)
    })
    expect(ages).toEqual([])
    const [old, newer] = handles as [LeaseHandle, LeaseHandle]
    {
      await using second = await leasing({ outboxDir })
      await expect.poll(async () => (await at(second, old).read()).status, soon).toBe(404)
      expect((await at(second, newer).read()).status).toBe(200)
      await expect.poll(async () => storedRollouts(outboxDir), soon).toEqual(['newer'])
    }
    await using third = await leasing({ outboxDir })
    expect((await at(third, old).read()).status).toBe(404)
    expect((await at(third, newer).once()).status).toBe('success')
  })
})

describe('rollouts that were delivered', () => {
  /** Lines about rollouts that ended this long ago. */
  const endedAgo = (ms: number, ids: readonly string[]): string =>
    ids
      .map((key) => `\n${JSON.stringify({ key, digest: '', answer: '{}', at: Date.now() - ms })}`)
      .join('')

  it('are known for a quarter of an hour after their end, also when a restart lies between', async () => {
    const outboxDir = await temporaryFolder()
    const old = endedAgo(15 * minutes - 1000, ['old'])
    writeFileSync(path.join(outboxDir, 'ended.jsonl'), old + endedAgo(10 * minutes, ['newer']))
    await using running = await startServer({ outboxDir })
    expect((await running.post({ rollout_id: 'newer' })).status).toBe(409)
    await expect
      .poll(async () => (await running.post({ rollout_id: 'old' })).status, soon)
      .toBe(202)
    expect((await running.post({ rollout_id: 'newer' })).status).toBe(409)
    await running.controller.bodies()
  })

  it('are known after a restart when another ten thousand ended since', async () => {
    const outboxDir = await temporaryFolder()
    const ids = Array.from({ length: 10_000 }, (_, n) => `r${n}`)
    writeFileSync(path.join(outboxDir, 'ended.jsonl'), endedAgo(minutes, ids))
    {
      await using first = await startServer({ outboxDir })
      await first.post({ rollout_id: 'last' })
      await first.controller.bodies()
      await first.server.drain()
    }
    await using second = await startServer({ outboxDir })
    for (const rollout_id of ['r1', 'r2', 'r5000', 'r9998', 'r9999', 'last']) {
      const answer = await second.post({ rollout_id, label: 'of another body' })
      expect([rollout_id, answer.status]).toEqual([rollout_id, 409])
    }
    // Only so many are remembered.
    expect((await second.post({ rollout_id: 'r0' })).status).toBe(202)
    await second.controller.bodies()
  })
})
