import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { metricsIn, storedRollouts, temporaryFolder } from '../../../test/kit/index.ts'
import { failingDisk } from './failing-disk.ts'
import { leasing } from './leasing-server.ts'
import {
  askPolicy,
  graderOf,
  type RunningServer,
  startServer,
  workflowOf,
} from './running-server.ts'

/** What a log says about errors, as one text for each line. */
function errorsIn({ log }: RunningServer): string[] {
  return log
    .filter(({ level }) => level === 'error')
    .map(({ message, fields }) => `${String(fields['rollout_id'])}: ${message}`)
}

/** Files of a folder that this process has open, where the system tells. */
function openFilesIn(folder: string): string[] {
  const open = '/proc/self/fd'
  if (!existsSync(open)) return []
  return readdirSync(open).flatMap((fd) => {
    try {
      const file = readlinkSync(path.join(open, fd))
      return file.startsWith(folder) ? [file] : []
    } catch {
      // That of the list itself.
      return []
    }
  })
}

async function untilEnded({ log }: RunningServer, rollout_id: string): Promise<void> {
  const end = { level: 'info', message: 'rollout ended', fields: { rollout_id } }
  await expect.poll(() => log).toContainEqual(end)
}

const outOfDate = 'r1: outbox is out of date: ENOSPC: the disk fails'

describe('a write that fails is told', () => {
  it('to the caller of a rollout that cannot be stored, and to the log', async () => {
    const disk = await failingDisk()
    const outboxDir = await temporaryFolder()
    await using running = await startServer({ outboxDir })
    disk.isFull = true
    const bodies = [{}, { completion_callback_url: undefined }]
    for (const body of bodies) {
      const answer = await running.post(body)
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5'])
      expect(await answer.json()).toEqual({
        detail: 'the outbox cannot be written to; retry later',
      })
    }
    const refused = 'r1: rollout not accepted: ENOSPC: the disk fails'
    expect(errorsIn(running)).toEqual([refused, refused])
    const metrics = metricsIn(await (await fetch(`${running.url}/metrics`)).text())
    expect(metrics.get('osmosis_outbox_rollouts')).toBe(0)
    expect(metrics.get('osmosis_rollouts_in_flight')).toBe(0)
    disk.isFull = false
    expect((await running.post()).status).toBe(202)
    await running.controller.bodies()
  })

  it('once for each rollout whose next step is in no file', async () => {
    const disk = await failingDisk()
    const outboxDir = await temporaryFolder()
    await using running = await startServer({
      outboxDir,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        disk.isFull = true
      }),
    })
    await running.post()
    expect(await running.controller.bodies()).toHaveLength(2)
    await untilEnded(running, 'r1')
    // Its completion is the last step that was to be written; the other is the list of what ended.
    expect(errorsIn(running)).toEqual([outOfDate, outOfDate])
    disk.isFull = false
    expect(await storedRollouts(outboxDir)).toEqual([])
  })

  it('when it cannot even be taken back, so that the next process may contradict this one', async () => {
    const disk = await failingDisk()
    const outboxDir = await temporaryFolder()
    await using running = await startServer({
      outboxDir,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        disk.isFull = true
        disk.losses = 2
      }),
    })
    await running.post()
    await untilEnded(running, 'r1')
    expect(errorsIn(running)).toEqual([
      'undefined: a failed write cannot be rolled back: EIO: the disk fails',
      'undefined: the next process may find rollouts that have ended: EIO: the disk fails',
      outOfDate,
      outOfDate,
    ])
    await running.server.drain()
    expect(openFilesIn(outboxDir)).toEqual([])
  })

  it('when only what is said about a delivered callback cannot be written', async () => {
    const disk = await failingDisk()
    await using running = await startServer({ outboxDir: await temporaryFolder() })
    running.controller.answers['grader'] = [
      (response) => {
        disk.isFull = true
        response.writeHead(200).end()
      },
    ]
    await running.post()
    await untilEnded(running, 'r1')
    // That it arrived, and that the rollout ended.
    expect(errorsIn(running)).toEqual([outOfDate, outOfDate])
  })

  it('about a leased result, which its caller fetches all the same', async () => {
    const disk = await failingDisk()
    await using running = await leasing({
      outboxDir: await temporaryFolder(),
      grader: graderOf((ctx) => {
        disk.isFull = true
        ctx.setReward(1)
      }),
    })
    const handle = await running.start()
    expect(await handle.until()).toMatchObject({ status: 'success', sample: { reward: 1 } })
    expect(errorsIn(running).length).toBeGreaterThan(0)
    expect(new Set(errorsIn(running))).toEqual(new Set([outOfDate]))
  })

  it('about files that cannot be removed', async () => {
    const disk = await failingDisk()
    await using running = await startServer({ outboxDir: await temporaryFolder() })
    await running.post()
    await running.controller.bodies()
    await untilEnded(running, 'r1')
    disk.losesFolders = true
    await running.server.drain()
    expect(errorsIn(running)).toEqual([
      'undefined: the outbox cannot be compacted: EIO: the disk fails',
    ])
  })
})
