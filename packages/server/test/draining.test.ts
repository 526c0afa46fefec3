import { OsmosisError } from '@osmosis/core'
import type { RolloutEvent } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { statusAndBody } from '../../../test/kit/index.ts'
import { AskOnce, askPolicy, OneForYes, startServer, workflowOf } from './running-server.ts'

describe('draining', () => {
  it('lets running and queued rollouts finish and delivers their results', async () => {
    const release = Promise.withResolvers<void>()
    await using running = await startServer({
      maxConcurrent: 1,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        await release.promise
      }),
    })
    const { controller, server } = running
    await running.post({ rollout_id: 'runs' })
    await running.post({ rollout_id: 'waits' })
    const drained = server.drain()
    expect((await running.post({ rollout_id: 'late' })).status).toBe(503)
    release.resolve()
    await drained

    const results = controller.callbacks.map(({ headers, body }) => [
      headers['idempotency-key'],
      (body as { status: string }).status,
    ])
    expect(Object.fromEntries(results)).toStrictEqual({
      'runs/completion': 'success',
      'runs/grader': 'success',
      'waits/completion': 'success',
      'waits/grader': 'success',
    })
  })

  it('fails rollouts that outlast the wait, and delivers the failures', async () => {
    await using running = await startServer({
      drainSeconds: 0.05,
      workflow: workflowOf(() => new Promise(() => undefined)),
    })
    const { controller, server } = running
    await running.post()
    await server.drain()

    expect(controller.callbacks.map(({ body }) => body)).toStrictEqual([
      {
        rollout_id: 'r1',
        status: 'failure',
        extra_fields: { lost_with: 'server_shutdown' },
        err_message: 'rollout server shut down',
        err_category: 'agent_error',
      },
      {
        rollout_id: 'r1',
        status: 'failure',
        samples: {},
        sample: null,
        extra_fields: { lost_with: 'server_shutdown' },
        err_message: 'rollout server shut down',
        err_category: 'agent_error',
      },
    ])
    expect(server.undelivered).toBe(0)
  })

  it('ends although a controller never answers, and logs what was lost', async () => {
    await using running = await startServer({ drainSeconds: 0, shutdownGraceSeconds: 0.05 })
    const { controller, server } = running
    controller.answers['completion'] = [() => undefined]
    await running.post()
    await controller.bodies(1)
    await server.drain()

    expect(server.undelivered).toBe(0)
    expect(running.log.at(-1)).toStrictEqual({
      level: 'info',
      message: 'drained',
      fields: { undelivered: 0, lost: 2, running: 0 },
    })
  })

  it('happens once, and a later call can only shorten its wait', async () => {
    await using running = await startServer()
    const { controller, server } = running
    controller.hanging = true
    await running.post()
    await controller.until(() => controller.openPolicyCalls === 1)

    await Promise.all([server.drain(), server.drain(), server.drain({ waitSeconds: 0 })])
    await server.close()
    expect(controller.callbacks).toHaveLength(2)
  })

  it('is what leaving an await using block does', async () => {
    await using running = await startServer()
    await running.server[Symbol.asyncDispose]()

    expect((await running.post()).status).toBe(503)
  })
})

describe('a backend that violates its contract', () => {
  class BrokenBackend extends LocalBackend {
    constructor() {
      super({ workflow: AskOnce, grader: OneForYes })
    }
  }
  const failure = (message: string): unknown[] => [
    {
      rollout_id: 'r1',
      status: 'failure',
      extra_fields: null,
      err_message: message,
      err_category: 'agent_error',
    },
    {
      rollout_id: 'r1',
      status: 'failure',
      samples: {},
      sample: null,
      err_message: message,
      err_category: 'agent_error',
    },
  ]

  it.each<[string, string, LocalBackend['execute']]>([
    ['throws', 'out of machines', () => throwing(new Error('out of machines'))],
    [
      'throws at once',
      'out of machines',
      () => {
        throw new Error('out of machines')
      },
    ],
    ['ends without any', 'The backend ended the rollout without a result.', () => throwing()],
  ])('still delivers both results when it %s', async (_, message, execute) => {
    const backend = Object.assign(new BrokenBackend(), { execute })
    await using running = await startServer({ backend, trajectories: false })
    await running.post()

    expect(await running.controller.bodies()).toStrictEqual(failure(message))
  })

  it('reports why a rollout was lost, which distinguishes it from a failure of its workflow', async () => {
    const backend = new BrokenBackend()
    const lost = new OsmosisError('worker_lost', 'the worker was lost')
    backend.execute = () => throwing(lost)
    await using running = await startServer({ backend, trajectories: false })
    await running.post()

    expect(await running.controller.bodies()).toMatchObject(
      Array.from({ length: 2 }, () => ({
        err_category: 'agent_error',
        extra_fields: { lost_with: 'worker_lost' },
      })),
    )
  })

  it('leads to a 500 without details, and a log line with them', async () => {
    const backend = new BrokenBackend()
    backend.load = () => {
      throw new Error('no connection to the workers')
    }
    await using running = await startServer({ backend, trajectories: false })

    expect(await statusAndBody(await fetch(`${running.url}/health`))).toStrictEqual({
      status: 500,
      body: { detail: 'Internal Server Error' },
    })
    expect(running.log.at(-1)).toMatchObject({
      level: 'error',
      message: 'request failed: no connection to the workers',
    })
  })

  it('never contradicts a result that was reported', async () => {
    const backend = new BrokenBackend()
    backend.execute = () => throwing(new Error('out of machines'), success, success)
    await using running = await startServer({ backend, trajectories: false })
    await running.post()

    expect(await running.controller.bodies()).toStrictEqual([
      {
        rollout_id: 'r1',
        status: 'success',
        extra_fields: null,
        err_message: null,
        err_category: null,
      },
      failure('out of machines')[1],
    ])
  })
})

const success: RolloutEvent = {
  type: 'workflow',
  outcome: { status: 'success', failure: null, warnings: [] },
  samples: new Map(),
}

/** These events, and then the error, if there is one. */
async function* throwing(
  error?: Error,
  ...events: readonly RolloutEvent[]
): AsyncGenerator<RolloutEvent> {
  yield* events
  if (error !== undefined) throw error
}
