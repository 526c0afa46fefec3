// @module-tag slow
import type { WorkerPoolOptions } from '@osmosis/server/child'
import { createRolloutServer, serve } from '@osmosis/server'
import { FakeController, post, recordingLogger } from '../../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

import { openPool, type PoolUnderTest } from './pool-under-test.ts'

interface CallbackBody {
  readonly rollout_id: string
  readonly status: string
  readonly err_message: string | null
  readonly sample?: { readonly reward: number | null } | null
}

interface HostileServer extends Pick<PoolUnderTest, 'pool'> {
  readonly workerEnds: PoolUnderTest['ends']
  readonly controller: FakeController
  send(rolloutId: string, does: string): Promise<void>
  /** Resolves when this number of rollouts have both callbacks: id → its completion and its grading. */
  ends(expected: number): Promise<Map<string, Record<'completion' | 'grader', CallbackBody>>>
}

async function openServer(options: Partial<WorkerPoolOptions>): Promise<HostileServer> {
  const controller = await new FakeController().start()
  onTestFinished(async () => controller[Symbol.asyncDispose]())
  const { pool, ends: workerEnds } = await openPool({ workers: 2, ...options })
  const server = createRolloutServer({
    backend: pool,
    trajectories: false,
    logger: recordingLogger([]),
  })
  const listening = await serve(server, { port: 0, handleSignals: false })
  onTestFinished(async () => listening.close({ waitSeconds: 0 }))
  return {
    pool,
    workerEnds,
    controller,
    send: async (rollout_id, does) => {
      const initial_messages = [{ role: 'user', content: does }]
      const body = controller.rolloutBody({ rollout_id, initial_messages, label: 'nothing' })
      expect((await post(`${listening.url}/rollout`, body)).status).toBe(202)
    },
    ends: async (expected) => {
      const { callbacks } = controller
      const keyOf = ({ headers }: (typeof callbacks)[number]): unknown => headers['idempotency-key']
      await controller.until(() => new Set(callbacks.map(keyOf)).size >= expected * 2)
      const ends = new Map<string, Record<'completion' | 'grader', CallbackBody>>()
      const received = new Map<string, unknown>()
      for (const callback of callbacks) {
        const { rollout_id: id } = callback.body as CallbackBody
        // A busy machine may acknowledge late: a repeated callback has the same body.
        const said = [keyOf(callback), callback.body]
        const name = `${callback.kind} ${id}`
        expect(received.get(name) ?? said).toStrictEqual(said)
        received.set(name, said)
        ends.set(id, { ...ends.get(id), [callback.kind]: callback.body } as never)
      }
      return ends
    },
  }
}

/** What happened to workers, as failures say it. */
const losses =
  /^the worker process (crashed in native code|blocked its event loop|aborted \(SIGABRT\)|was killed by SIGKILL)/

/** `right`, `lost` with a worker that had to be replaced, or what was wrong. */
function verdict(ended: Record<'completion' | 'grader', CallbackBody> | undefined): string {
  const { completion, grader } = ended ?? {}
  if (completion?.status === 'failure') {
    const { err_message: text } = completion
    const said = text?.includes('; the rollout had called the policy') ?? false
    return losses.test(text ?? '') && said ? 'lost' : String(text)
  }
  if (grader?.status === 'success') return grader.sample?.reward === 1 ? 'right' : 'no reward'
  return losses.test(grader?.err_message ?? '') ? 'lost' : String(grader?.err_message)
}

it('five rollouts that harm their processes fail alone, beside a hundred others', async () => {
  const harms = {
    exit: /^the workflow called process\.exit\(0\) \(at /,
    throw: /^the workflow threw an uncaught error: thrown in a timer/,
    loop: losses,
    allocate: losses,
    segfault: losses,
  }
  const limits = { heapMegabytes: 96, stallTimeoutSeconds: 3 }
  const server = await openServer({ ...limits, args: ['ten-at-once'] })
  for (let n = 0; n < 100; n += 1) {
    const [harm] = Object.keys(harms).slice(n / 20)
    if (n % 20 === 10) await server.send(`bad-${harm}`, String(harm))
    await server.send(`good-${n}`, 'ask nothing ask')
  }
  const ends = await server.ends(105)
  expect(ends.size).toBe(105)
  for (const [harm, text] of Object.entries(harms)) {
    const { completion, grader } = ends.get(`bad-${harm}`) ?? {}
    expect(completion).toMatchObject({
      status: 'failure',
      err_message: expect.stringMatching(text),
    })
    expect(grader?.status).toBe('failure')
  }
  const verdicts = Array.from({ length: 100 }, (_, n) => verdict(ends.get(`good-${n}`)))
  expect(verdicts.filter((one) => one !== 'right' && one !== 'lost')).toEqual([])
  // Each harm replaces one worker at most, in which ten others run at most.
  expect(verdicts.filter((one) => one === 'lost').length).toBeLessThanOrEqual(50)
  await server.send('after', 'ask')
  expect((await server.ends(106)).get('after')?.grader.sample?.reward).toBe(1)
})

it('workers that are killed at any moment lose no rollout, and no rollout calls the policy from two of them', async () => {
  const server = await openServer({})
  const total = 150
  const over = new AbortController()
  const killing = (async () => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      const { controller, pool } = server
      const calls = n * 150
      await controller.until(() => over.signal.aborted || controller.policyHeaders.length > calls)
      const pid = pool.workerPids[n % 2]
      if (!over.signal.aborted && pid !== undefined) process.kill(pid, 'SIGKILL')
    }
  })()
  for (let n = 0; n < total; n += 1) await server.send(`r-${n}`, 'nothing ask ask ask')
  const ends = await server.ends(total)
  over.abort()
  server.controller.note('all have ended')
  await killing

  expect(ends.size).toBe(total)
  const verdicts = [...ends.values()].map(verdict)
  // Kills from outside may hit the same rollout twice before it calls the policy.
  const twice = /; it is the second worker that was lost while it executed this rollout$/
  const wrong = verdicts.filter((one) => one !== 'right' && one !== 'lost' && !twice.test(one))
  expect(wrong).toEqual([])
  expect(server.workerEnds.length).toBeGreaterThan(0)
  const asked = new Map<string, Set<string>>()
  for (const headers of server.controller.policyHeaders) {
    const id = String(headers['x-rollout-id'])
    asked.set(id, (asked.get(id) ?? new Set()).add(String(headers['x-sample-id'])))
  }
  // The sample id of these rollouts is the id of the process that called the policy.
  for (const pids of asked.values()) expect(pids.size).toBe(1)
})
