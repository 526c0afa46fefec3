import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import path from 'node:path'

import { createRolloutServer } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it, vi, onTestFinished } from 'vitest'

import { FakeController, LeaseClient, temporaryFolder, onlyIf } from '../../../test/kit/index.ts'
import { acceptanceOf, callbackOf, found, openOutbox, foundAfterKill } from './outbox-of-test.ts'
import { AskOnce, startServer, workflowOf } from './running-server.ts'
import { startChild } from './start-child.ts'

/** A server that sees other local sockets, as one in another container does. */
const elsewhere = { namespace: 'another container' }
/** It considers an owner dead before its heartbeat can be seen. */
const hasty = { ...elsewhere, deadAfterMs: 30 }
const interrupted = ['completion interrupted']

describe('an outbox on a volume that containers share', () => {
  it('is refused to a second server as long as the first one lives', async () => {
    const folder = await temporaryFolder()
    await using _ = await openOutbox(folder, { heartbeatMs: 10 })
    await expect(openOutbox(folder, { ...elsewhere, deadAfterMs: 3000 })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(
        /^Another server \(process \d+ on host .+\) uses the folder .+\. Give each server a folder/,
      ) as string,
    })
  })

  it('can be opened again by a server that could not remove an unfinished file in it', async () => {
    const outboxDir = await temporaryFolder()
    const unfinished = path.join(outboxDir, `${randomUUID()}.refused.${randomUUID()}.tmp`)
    await mkdir(unfinished)
    const backend = new LocalBackend({ workflow: AskOnce })
    await using server = createRolloutServer({ backend, outboxDir, logger: false })
    await expect(server.start()).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('The outbox must be a writable folder: ') as string,
    })
    await rm(unfinished, { recursive: true })
    await server.start()
  })

  it('goes to the next server at once when the first one has ended', async () => {
    const folder = await temporaryFolder()
    await (await openOutbox(folder)).outbox.close()
    await using second = await openOutbox(folder, elsewhere)
    expect(second.log).toStrictEqual([])
  })

  it('goes to the next server when the heartbeat of the first one is overdue', async () => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    await first.outbox.accept(acceptanceOf('pending'))
    await using second = await openOutbox(folder, hasty)
    expect(second.records.map(({ acceptance }) => acceptance.rolloutId)).toStrictEqual(['pending'])
    expect(second.log).toMatchObject([{ level: 'warn', fields: { folder, wait_seconds: 0.03 } }])
  })
})

describe('a server whose outbox another one has taken over', () => {
  it('accepts nothing, delivers none of its rollouts, and ends with an error', async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const going = Promise.withResolvers<void>()
    const workflow = workflowOf(async (ctx) => {
      await new AskOnce(undefined).run(ctx)
      await going.promise
    })
    await using first = await startServer({ outboxDir, controller, workflow })
    expect((await first.post({ rollout_id: 'sent' })).status).toBe(202)
    const lease = await new LeaseClient(first).start(
      controller.rolloutBody({ rollout_id: 'fetched', completion_callback_url: undefined }),
    )
    await controller.until(() => controller.policyHeaders.length === 2)

    await using second = await openOutbox(outboxDir, hasty)
    const pending = second.records.map(({ acceptance }) => acceptance.rolloutId)
    expect(pending).toStrictEqual(['sent', 'fetched'])
    expect((await first.post({ rollout_id: 'late' })).status).toBe(503)
    const polled = lease.once().catch(() => ({ status: 'running' }))
    going.resolve()
    expect(await polled).toMatchObject({ status: 'running' })
    await first.server.drain()

    expect(controller.callbacks).toStrictEqual([])
    expect(first.server.lost.aborted).toBe(true)
    await expect(first.post()).rejects.toThrow('fetch failed')
    const [error, ...others] = first.log.filter(({ level }) => level === 'error')
    expect(error?.message).toMatch(
      /^Another server \(process \d+ on host .+\) has taken over the folder .+ This server ends/,
    )
    expect(others.map(({ message }) => message)).toStrictEqual([
      expect.stringMatching(/^rollout not accepted: Another server/),
    ])
  })

  it('notices the loss without a request', async () => {
    const folder = await temporaryFolder()
    const lost = Promise.withResolvers<string>()
    await using first = await openOutbox(folder, {
      heartbeatMs: 200,
      onLost: ({ message }) => lost.resolve(message),
    })
    await using _ = await openOutbox(folder, hasty)
    expect(await lost.promise).toContain('has taken over the folder')
    expect(first.log).toStrictEqual([])
  })

  const syncs = {
    'is written': async () => {},
    'cannot be written': async () => {
      throw Object.assign(new Error('EIO: the disk fails'), { code: 'EIO' })
    },
  }
  it.each(Object.entries(syncs))(
    'shows no step that %s meanwhile, and contradicts nothing',
    async (_, ends) => {
      const folder = await temporaryFolder()
      await using first = await openOutbox(folder)
      const record = await first.outbox.accept(acceptanceOf('pending'))
      const handle = await open(import.meta.filename)
      await handle.close()
      const operations = Object.getPrototypeOf(handle) as typeof handle
      let next: Awaited<ReturnType<typeof openOutbox>> | undefined
      vi.spyOn(operations, 'datasync').mockImplementationOnce(async () => {
        next = await openOutbox(folder, hasty)
        await ends()
      })
      const success = callbackOf('pending', 'completion', 'success')
      expect(await record.store(success, [])).toBeUndefined()
      expect(record.undecided).toBe(true)
      await expect(first.outbox.accept(acceptanceOf('late'))).rejects.toMatchObject({
        code: 'storage_error',
      })
      // The new owner may deliver what it wrote, because it may have read it already.
      expect(next?.records[0]?.undelivered).toMatchObject([{ body: 'success' }])
      await first.outbox.close()
      await next?.outbox.close()
      expect(await found(folder)).toStrictEqual({ pending: ['completion success'] })
    },
  )

  it('notices the loss also when the folder was removed and another server created it again', async () => {
    const folder = await temporaryFolder()
    await using first = await openOutbox(folder)
    rmSync(folder, { recursive: true })
    await mkdir(folder)
    await using second = await openOutbox(folder, elsewhere)
    await second.outbox.accept(acceptanceOf('of the second'))
    await expect(first.outbox.accept(acceptanceOf('of the first'))).rejects.toMatchObject({
      code: 'storage_error',
    })
    await Promise.all([first.outbox.close(), second.outbox.close()])
    expect(await found(folder)).toStrictEqual({ 'of the second': interrupted })
  })
})

it(
  'ends with exit code 1 when another server has taken over its outbox',
  { tags: 'slow' },
  async () => {
    const outboxDir = await temporaryFolder()
    await using child = await startChild({ outboxDir })
    await using _ = await openOutbox(outboxDir, { namespace: 'another container', deadAfterMs: 30 })
    expect((await child.post()).status).toBe(503)
    expect(await child.exit).toStrictEqual([1, null])
  },
)

const canMount =
  spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0

/** A disk with room for so many files and folders; `files` changes the number. */
async function diskWithInodes(
  count: number,
): Promise<{ disk: string; files: (count: number) => void }> {
  const disk = await temporaryFolder()
  const mount = (...args: string[]): void => {
    expect(spawnSync('mount', [...args, disk]).status).toBe(0)
  }
  mount('-t', 'tmpfs', '-o', `nr_inodes=${count}`, 'none')
  onTestFinished(() => void spawnSync('umount', ['--lazy', disk]))
  return { disk, files: (more) => mount('-o', `remount,nr_inodes=${more}`) }
}

onlyIf(canMount, 'root and mount').it(
  'writes nothing while its disk takes no file that names it as the owner',
  async () => {
    const { disk, files } = await diskWithInodes(100)
    const folder = path.join(disk, 'outbox')
    {
      await using server = await openOutbox(folder)
      await server.outbox.accept(acceptanceOf('pending'))
    }
    // The owner's file is gone, as after a restore, and nothing can be created.
    for (const name of readdirSync(folder))
      if (name.startsWith('owner-')) rmSync(`${folder}/${name}`)
    const contents = (): Record<string, string> =>
      Object.fromEntries(
        readdirSync(folder).map((name) => [name, readFileSync(path.join(folder, name), 'utf8')]),
      )
    files(readdirSync(folder).length + 2)
    const before = contents()
    await using first = await openOutbox(folder)
    await using second = await openOutbox(folder, elsewhere)
    for (const { outbox, records } of [first, second]) {
      expect(records).toHaveLength(1)
      await expect(outbox.accept(acceptanceOf('new'))).rejects.toThrow('ENOSPC')
      const success = callbackOf('pending', 'completion', 'success')
      await records[0]?.store(success, [])
    }
    expect(contents()).toEqual(before)

    files(100)
    const accepted = await Promise.allSettled(
      [first, second].map(({ outbox }, n) => outbox.accept(acceptanceOf(`after ${n}`))),
    )
    expect(accepted.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const [refused] = accepted.filter((result) => result.status === 'rejected')
    expect(refused?.reason).toMatchObject({ code: 'storage_error' })
  },
)

onlyIf(canMount, 'root and mount').it(
  'starts on a full disk, and locks the folder when there is space',
  { tags: 'slow' },
  async () => {
    const { disk, files } = await diskWithInodes(2)
    const folder = path.join(disk, 'outbox')
    await using first = await openOutbox(folder)
    await expect(first.outbox.accept(acceptanceOf('full'))).rejects.toThrow('ENOSPC')
    files(100)
    await first.outbox.accept(acceptanceOf('stored'))
    expect(readdirSync(folder)).toContain('owner-00000001.lock')
    expect(await foundAfterKill(folder)).toStrictEqual({ stored: ['completion interrupted'] })
  },
)
