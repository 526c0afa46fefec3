import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'

import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import { createRolloutServer, serve } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import {
  FakeController,
  LeaseClient,
  type LogLine,
  post,
  recordingLogger,
  storedRollouts,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { leasing } from './leasing-server.ts'
import { askPolicy, AskOnce, OneForYes, startServer, workflowOf } from './running-server.ts'

/** A workflow that ends when the test says so. */
function gate(): { open: () => void; workflow: ReturnType<typeof workflowOf> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const workflow = workflowOf(async (ctx) => {
    await askPolicy(ctx)
    await promise
  })
  return { open: resolve, workflow }
}

/** Whether it is over after this server has answered many requests. */
async function isSoonOver(ending: Promise<unknown>, { url }: { url: string }): Promise<boolean> {
  const over = ending.then(() => true)
  for (let requests = 0; requests < 50; requests += 1) {
    const answered = fetch(`${url}/health`).then(async (answer) => (await answer.text()) === '')
    if (await Promise.race([over, answered])) return true
  }
  return false
}

describe('the end of a server', () => {
  it('comes after a caller that still polls has its result', async () => {
    const { open, workflow } = gate()
    await using running = await leasing({ workflow, shutdownGraceSeconds: 600 })
    const handle = await running.start()
    const drained = running.server.drain()
    open()
    await expect
      .poll(async () => (await fetch(`${running.url}/health`)).json())
      .toMatchObject({ retained_results: 1 })

    expect(await isSoonOver(drained, running)).toBe(false)
    expect(await handle.until()).toMatchObject({ status: 'success' })
    await drained
  })

  it('comes after rollouts that run, and after their callbacks have arrived', async () => {
    const { open, workflow } = gate()
    await using running = await startServer({ workflow, shutdownGraceSeconds: 600 })
    const { controller } = running
    const answer = Promise.withResolvers<void>()
    controller.answers['grader'] = [
      (response) => void answer.promise.then(() => response.writeHead(200).end()),
    ]
    await running.post()
    const drained = running.server.drain({ waitSeconds: 600 })
    expect(await isSoonOver(drained, running)).toBe(false)
    open()
    await controller.bodies()
    expect(await isSoonOver(drained, running)).toBe(false)
    answer.resolve()
    await drained
    expect(running.server.undelivered).toBe(0)
  })

  it('comes after the failures of rollouts that it ended are stored and fetched', async () => {
    const outboxDir = await temporaryFolder()
    await using running = await leasing({
      outboxDir,
      workflow: workflowOf(() => new Promise(() => undefined)),
      shutdownGraceSeconds: 600,
    })
    const handles = await Promise.all(
      ['a', 'b', 'c'].map(async (rollout_id) => running.start({ rollout_id })),
    )
    await Promise.all(handles.map(async (handle) => handle.until((status) => status === 'running')))
    const drained = running.server.drain({ waitSeconds: 0 })
    expect(await isSoonOver(drained, running)).toBe(false)
    for (const handle of handles) {
      expect(await isSoonOver(drained, running)).toBe(false)
      expect(await handle.until()).toMatchObject({ err_message: 'rollout server shut down' })
    }
    await drained
    expect((await storedRollouts(outboxDir)).toSorted()).toEqual(['a', 'b', 'c'])
  })
})

describe('closing the port', () => {
  async function served(workflow: ReturnType<typeof workflowOf>): Promise<{
    url: string
    log: LogLine[]
    close: () => Promise<void>
  }> {
    const log: LogLine[] = []
    const server = createRolloutServer({
      backend: new LocalBackend({ workflow, grader: OneForYes }),
      trajectories: false,
      shutdownGraceSeconds: 600,
      logger: recordingLogger(log),
    })
    const listening = await serve(server, { port: 0, handleSignals: false })
    return { url: listening.url, log, close: () => listening.close({ waitSeconds: 600 }) }
  }

  it('lets polls and drains that wait end with their answer', async () => {
    const { open, workflow } = gate()
    await using controller = await new FakeController().start()
    const { url, close } = await served(workflow)
    const client = new LeaseClient({ url })
    const body = { ...controller.rolloutBody(), completion_callback_url: undefined }
    const handles = await Promise.all(
      ['a', 'b', 'c'].map(async (rollout_id) => client.start({ ...body, rollout_id })),
    )
    await Promise.all(handles.map(async (handle) => handle.until((status) => status === 'running')))
    // They wait for the next status, and for the end of the last rollout.
    const polls = handles.map(async (handle) => handle.until())
    const drain = post(`${url}/drain`, { timeout_sec: 300 })
    await expect
      .poll(async () => (await fetch(`${url}/health`)).json())
      .toMatchObject({ lifecycle: { accepting_rollouts: false } })
    const closed = close()
    expect(await isSoonOver(closed, { url })).toBe(false)
    open()
    expect(await Promise.all(polls)).toMatchObject(
      Array.from({ length: 3 }, () => ({ status: 'success', sample: { reward: 1 } })),
    )
    expect(await (await drain).json()).toMatchObject({ drained: true, active_rollouts: 0 })
    await closed
    await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
  })

  it('lets a caller read the whole of a long result, however late it reads', async () => {
    const content = 'x'.repeat(16 * 1024 * 1024)
    await using controller = await new FakeController().start()
    const { url, log, close } = await served(
      workflowOf(() => {
        const messages = [{ role: 'assistant', content }]
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) => toRolloutSample({ id, messages }),
        })
      }),
    )
    const body = { ...controller.rolloutBody(), completion_callback_url: undefined, grade: false }
    const { accepted } = await new LeaseClient({ url }).start(body)
    await expect
      .poll(async () => (await fetch(`${url}/health`)).json())
      .toMatchObject({ retained_results: 1 })
    const headers = { 'X-Osmosis-Rollout-Lease': accepted.polling_lease_token }
    const [answer] = (await once(
      get(`${url}/rollout/r1/result`, { headers, agent: false }),
      'response',
    )) as [IncomingMessage]
    const closed = close()
    // The server is drained: only its connections are open.
    await expect.poll(() => log.map(({ message }) => message)).toContain('drained')
    let length = 0
    for await (const piece of answer) length += (piece as Buffer).length
    expect(length).toBeGreaterThan(content.length)
    await closed
  })
})

it('a request that begins while the server ends is refused, and those before it are answered', async () => {
  await using running = await startServer({ workflow: AskOnce })
  const requests = Array.from({ length: 20 }, async (_, n) => running.post({ rollout_id: `r${n}` }))
  const drained = running.server.drain()
  const answers = await Promise.all(requests)
  await drained
  const accepted = answers.flatMap(({ status }, n) => (status === 202 ? [`r${n}`] : []))
  expect(answers.every(({ status }) => status === 202 || status === 503)).toBe(true)
  // Each of those that were accepted has its results, and no other has any.
  const ids = running.controller.callbacks.map(
    ({ body }) => (body as { rollout_id: string }).rollout_id,
  )
  expect(ids.toSorted()).toEqual([...accepted, ...accepted].toSorted())
})
