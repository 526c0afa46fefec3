import { subscribe } from 'node:diagnostics_channel'
import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'

import { createRolloutServer, type RolloutServer } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it, vi } from 'vitest'

import { FakeController, storedRollouts, onlyIf, post } from '../../../test/kit/index.ts'
import { failingDisk } from './failing-disk.ts'
import { AskOnce, OneForYes, startServer } from './running-server.ts'
import { startChild } from './start-child.ts'

/** A folder that is removed after the test. */
async function temporaryFolder(): Promise<{ outboxDir: string } & AsyncDisposable> {
  const folder = await mkdtemp(path.join(tmpdir(), 'outbox-'))
  return {
    outboxDir: path.join(folder, 'outbox'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  }
}

/** Names of the files about rollouts, except those that must always exist. */
async function storedFiles(outboxDir: string): Promise<string[]> {
  const names = await readdir(outboxDir)
  return names.filter((name) => name !== 'ended.jsonl' && !name.endsWith('.lock'))
}

/** What arrived, by idempotency key: every different body once. */
function bodiesByKey({ callbacks }: FakeController): Map<string, Set<string>> {
  const bodies = new Map<string, Set<string>>()
  for (const { headers, body } of callbacks) {
    const key = String(headers['idempotency-key'])
    bodies.set(key, (bodies.get(key) ?? new Set()).add(JSON.stringify(body)))
  }
  return bodies
}

describe('a server with an outbox', () => {
  it('removes rollouts whose callbacks were acknowledged', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using running = await startServer({ outboxDir })
    await running.post()
    await running.controller.bodies()
    await running.server.drain()

    expect(await storedFiles(outboxDir)).toStrictEqual([])
  })

  it('has a reward delivered by the next process after it was killed', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using controller = await new FakeController().start()
    const refused = Promise.withResolvers<void>()
    controller.otherwise = () => 503
    controller.answers['completion'] = [200]
    controller.answers['grader'] = [
      (response) => {
        response.writeHead(503).end()
        refused.resolve()
      },
    ]
    {
      await using first = await startChild({ outboxDir, controller })
      await first.post()
      await refused.promise
      first.kill('SIGKILL')
      await first.exit
    }
    controller.otherwise = () => undefined
    const before = controller.callbacks.length
    {
      await using _ = await startServer({ outboxDir, controller })
      await controller.until(() => controller.callbacks.length > before)
      await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
    }

    const later = controller.callbacks.slice(before)
    expect(later).toMatchObject([
      {
        kind: 'grader',
        headers: { 'idempotency-key': 'r1/grader', authorization: 'Bearer controller-key' },
        body: { status: 'success', sample: { reward: 1 } },
      },
    ])
    expect(bodiesByKey(controller).get('r1/grader')?.size).toBe(1)
    expect(await storedFiles(outboxDir)).toStrictEqual([])
  })

  it('delivers what a controller missed while it was down when the last process shut down', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using controller = await new FakeController().start()
    {
      await using first = await startServer({
        outboxDir,
        drainSeconds: 0,
        shutdownGraceSeconds: 0.1,
      })
      controller.otherwise = () => 503
      await post(`${first.url}/rollout`, controller.rolloutBody())
      await controller.bodies(1)
      await first.server.drain()
      expect(first.server.undelivered).toBe(2)
    }
    controller.otherwise = () => undefined
    await using second = await startServer({ outboxDir })
    await vi.waitFor(() => expect(second.server.undelivered).toBe(0), 60_000)

    const bodies = bodiesByKey(controller)
    expect([...bodies.keys()]).toStrictEqual(['r1/completion', 'r1/grader'])
    expect([...bodies.values()].map(({ size }) => size)).toStrictEqual([1, 1])
    expect(second.log).toContainEqual({
      level: 'info',
      message: 'delivering results that an earlier process left',
      fields: { rollouts: 1 },
    })
  })

  it('writes refused callbacks to a file, and does not send them again', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    {
      await using first = await startServer({ outboxDir, grader: null })
      first.controller.otherwise = () => 404
      await first.post({ grader_callback_url: null })
      await first.controller.bodies(1)
    }
    const names = await storedFiles(outboxDir)
    expect(names).toStrictEqual([expect.stringMatching(/\.refused$/)])
    expect(await readFile(path.join(outboxDir, names[0] ?? ''), 'utf8')).toContain('r1/completion')
    await using second = await startServer({ outboxDir })
    expect(second.server.undelivered).toBe(0)
    expect(await storedFiles(outboxDir)).toStrictEqual(names)
  })

  it('reports a rollout of an earlier process before, while and after its results are delivered', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using controller = await new FakeController().start()
    controller.otherwise = () => 503
    {
      await using first = await startServer({
        outboxDir,
        drainSeconds: 0,
        shutdownGraceSeconds: 0.1,
      })
      await post(`${first.url}/rollout`, controller.rolloutBody())
      await controller.bodies(1)
    }
    const before = bodiesByKey(controller)
    const sendAgain = async (url: string, overrides = {}): Promise<unknown[]> => {
      const answer = await post(`${url}/rollout`, controller.rolloutBody(overrides))
      return [answer.status, await answer.json()]
    }
    const inUse = { detail: 'rollout_id is already in use by a rollout with another body' }
    const calls = controller.policyHeaders.length
    {
      await using second = await startServer({ outboxDir })
      expect(await sendAgain(second.url)).toStrictEqual([202, {}])
      expect(await sendAgain(second.url, { label: 'no' })).toStrictEqual([409, inUse])
      expect((await second.post({ rollout_id: 'r2' })).status).toBe(202)

      controller.otherwise = () => undefined
      await vi.waitFor(() => expect(second.server.undelivered).toBe(0), 60_000)
      expect(await sendAgain(second.url)).toStrictEqual([202, {}])
    }
    await using third = await startServer({ outboxDir })
    expect(await sendAgain(third.url)).toStrictEqual([202, {}])
    expect(await sendAgain(third.url, { label: 'no' })).toStrictEqual([409, inUse])
    const after = bodiesByKey(controller)
    expect(after.get('r1/completion')).toStrictEqual(before.get('r1/completion'))
    expect(after.get('r1/grader')?.size).toBe(1)
    expect(controller.policyHeaders.length).toBe(calls)
  })

  it('locks no folder and accepts no rollout when it is closed already', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    const backend = new LocalBackend({ workflow: AskOnce })
    const closed = createRolloutServer({ backend, logger: false, outboxDir })
    const starting = closed.start()
    await closed.close()
    await starting
    await expect(closed.start()).resolves.toBeUndefined()

    const neverStarted = createRolloutServer({ backend, logger: false, outboxDir })
    await neverStarted.close()
    await expect(neverStarted.start()).rejects.toMatchObject({ code: 'server_shutdown' })
    const answer = await neverStarted.fetch(new Request('http://x/health'))
    expect(answer.status).toBe(200)
    await using next = await startServer({ outboxDir })
    expect((await next.post()).status).toBe(202)
  })

  it('still removes delivered rollouts when it was opened at the second try', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    const unreadable = path.join(outboxDir, 'ended.jsonl')
    await mkdir(unreadable, { recursive: true })
    await using controller = await new FakeController().start()
    const backend = new LocalBackend({ workflow: AskOnce, grader: OneForYes })
    await using server = createRolloutServer({
      backend,
      logger: false,
      outboxDir,
      trajectories: false,
    })
    await expect(server.start()).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('EISDIR') as string,
    })
    await rm(unreadable, { recursive: true })
    await server.start()
    const body = JSON.stringify(controller.rolloutBody())
    await server.fetch(new Request('http://x/rollout', { method: 'POST', body }))
    await controller.bodies()
    await vi.waitFor(async () => expect(await storedFiles(outboxDir)).toStrictEqual([]), 60_000)
  })

  it('leaves its folder to the next server although a file could not be closed', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using controller = await new FakeController().start()
    const disk = await failingDisk()
    const create = (): RolloutServer =>
      createRolloutServer({
        backend: new LocalBackend({ workflow: AskOnce, grader: OneForYes }),
        logger: false,
        outboxDir,
        trajectories: false,
      })
    const server = create()
    disk.failsToClose = true
    const body = JSON.stringify(controller.rolloutBody())
    await server.fetch(new Request('http://x/rollout', { method: 'POST', body }))
    await controller.bodies()
    await expect(server.close()).rejects.toThrow('EIO: the disk fails')
    disk.failsToClose = false
    const next = create()
    await next.start()
    await next.close()
  })

  it('does not start when its folder is a file', async () => {
    await using folder = await temporaryFolder()
    await writeFile(folder.outboxDir, '')
    await expect(startServer({ outboxDir: folder.outboxDir })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('The outbox must be a writable folder') as string,
    })
  })

  it('cannot be created with an empty folder name', () => {
    const backend = new LocalBackend({ workflow: AskOnce })
    expect(() => createRolloutServer({ backend, outboxDir: '' })).toThrow(
      'outboxDir (--outbox) is empty. Omit it, or name a folder.',
    )
  })

  // Root may write everywhere.
  onlyIf(process.getuid?.() !== 0, 'a user other than root').it(
    'does not start with a folder of another user',
    async () => {
      await using folder = await temporaryFolder()
      await mkdir(folder.outboxDir, { mode: 0o500 })
      await expect(startServer({ outboxDir: folder.outboxDir })).rejects.toMatchObject({
        code: 'invalid_config',
        message: expect.stringMatching(/can be written to: EACCES/) as string,
      })
    },
  )

  it('lets only its owner read the files, because they contain keys', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using running = await startServer({ outboxDir })
    running.controller.otherwise = () => 503
    await running.post()
    await running.controller.bodies(1)
    const [name = ''] = await storedFiles(outboxDir)

    expect((await stat(outboxDir)).mode & 0o777).toBe(0o700)
    expect((await stat(path.join(outboxDir, name))).mode & 0o777).toBe(0o600)
  })

  it('delivers what it cannot store, and accepts nothing that it cannot store', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using running = await startServer({ outboxDir })
    running.controller.answers['completion'] = [
      (response) => {
        rmSync(outboxDir, { recursive: true })
        response.end()
      },
    ]
    await running.post()
    expect(await running.controller.bodies()).toMatchObject([
      { status: 'success' },
      { status: 'success', sample: { reward: 1 } },
    ])
    const refused = await running.post({ rollout_id: 'r2' })
    expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([503, '5'])
    expect(await refused.json()).toStrictEqual({
      detail: 'the outbox cannot be written to; retry later',
    })
    expect(running.log).toContainEqual({
      level: 'error',
      message: expect.stringMatching(/^rollout not accepted: ENOENT/) as string,
      fields: { rollout_id: 'r2', error: expect.anything() as unknown },
    })
    await mkdir(outboxDir)
    expect((await running.post({ rollout_id: 'r2' })).status).toBe(202)
    await running.controller.until(() => running.controller.callbacks.length === 4)
  })

  it('accepts nothing in a folder that the next process would not read', async () => {
    await using folder = await temporaryFolder()
    const { outboxDir } = folder
    await using running = await startServer({ outboxDir })
    running.controller.hanging = true
    await running.post()
    await rename(outboxDir, `${outboxDir}.moved`)
    expect((await running.post({ rollout_id: 'r2' })).status).toBe(503)

    await mkdir(outboxDir)
    expect((await running.post({ rollout_id: 'r2' })).status).toBe(202)
    expect(await storedRollouts(outboxDir)).toStrictEqual(['r2'])
  })
})

it('counts a callback as acknowledged that was acknowledged while the server closed', async () => {
  await using folder = await temporaryFolder()
  await using running = await startServer({ ...folder, grader: null, shutdownGraceSeconds: 0.1 })
  const { controller } = running
  controller.answers['completion'] = [
    (response) => {
      response.writeHead(200, { 'content-length': '10' })
      response.write('half')
    },
  ]
  const statusArrived = new Promise((resolve) => {
    subscribe('undici:request:headers', (message) => {
      const { request } = message as { request: { path: string } }
      if (request.path === '/completion') resolve(undefined)
    })
  })
  await running.post({ grader_callback_url: null })
  await statusArrived
  await setImmediate()
  await running.server.drain({ waitSeconds: 0 })

  expect(running.server.undelivered).toBe(0)
  expect(await storedFiles(folder.outboxDir)).toStrictEqual([])
})

it('sends the completion before the grading, also after a restart', async () => {
  await using folder = await temporaryFolder()
  await using controller = await new FakeController().start()
  controller.otherwise = () => 503
  {
    await using first = await startServer({ ...folder, callbackRetry: { retries: 0 } })
    await post(`${first.url}/rollout`, controller.rolloutBody())
    await controller.bodies()
  }
  controller.events.length = 0
  controller.otherwise = () => undefined
  controller.answers['completion'] = [500, 500]
  await using second = await startServer(folder)
  await controller.until(() => controller.events.length === 4)
  await vi.waitFor(() => expect(second.server.undelivered).toBe(0), 60_000)

  expect(controller.events).toStrictEqual([
    'completion 500',
    'completion 500',
    'completion 200',
    'grader 200',
  ])
})

it('retries given up results when the request is repeated', async () => {
  await using folder = await temporaryFolder()
  await using running = await startServer({ ...folder, callbackRetry: { retries: 0 } })
  const { controller } = running
  controller.otherwise = () => 503
  await running.post()
  await controller.until(
    () => controller.events.filter((event) => event.endsWith('503')).length === 2,
  )
  controller.otherwise = () => undefined
  await vi.waitFor(async () => {
    expect((await running.post()).status).toBe(202)
    expect(running.server.undelivered).toBe(0)
  }, 60_000)
  expect(controller.events.filter((event) => event.endsWith('200'))).toStrictEqual([
    'completion 200',
    'grader 200',
  ])
  expect([...bodiesByKey(controller).values()].map(({ size }) => size)).toStrictEqual([1, 1])
})
