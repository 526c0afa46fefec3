import { startPolicyServer, type PolicyServer } from '@osmosis/testing'
import { expect, onTestFinished } from 'vitest'

import {
  withPrograms,
  type RedisServer,
  type TestServerProcess,
  startServerProcess,
} from '../../../test/kit/index.ts'
import type { RolloutQueue } from '../src/queue/rollout-queue.ts'
import { openQueue, entry, request, storedWorkflow } from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

it('runs a rollout elsewhere when its worker is killed, but fails it if it had called the policy', async () => {
  const { queue, redis } = await openQueue()
  const policy = await startHolding((id) => id.startsWith('asked'))
  const gate = await startHolding(() => true)
  const first = await startWorker(redis)
  const [asked, unasked] = [1, 2, 3].reduce<string[][]>(
    ([a = [], b = []], n) => [
      [...a, `asked-${n}`],
      [...b, `unasked-${n}`],
    ],
    [],
  ) as [string[], string[]]
  for (const id of asked) await add(queue, id, 'asks', { policy })
  for (const id of unasked) await add(queue, id, 'passes a gate', { policy, gate })
  await Promise.all([policy.waitForRequest(2), gate.waitForRequest(2)])
  await first.end()
  await startWorker(redis)

  for (const id of unasked) {
    await expect.poll(async () => queue.record(id)).toMatchObject({ status: 'success', run: 2 })
  }
  for (const id of asked) {
    await expect
      .poll(async () => queue.record(id))
      .toMatchObject({
        status: 'failure',
        errorMessage: expect.stringMatching(/^the worker was lost after 1 model call;/),
      })
  }
  expect(policy.asked()).toEqual([...asked, ...unasked])
})

it('fails a rollout that ends two workers, and others continue', { tags: 'slow' }, async () => {
  const { queue, redis } = await openQueue()
  const policy = await startHolding(() => false)
  for (const act of ['kills its worker', 'blocks for good']) {
    const id = act.replaceAll(' ', '-')
    await add(queue, id, act, { policy })
    const workers = [await startWorker(redis)]
    await expect.poll(async () => (await queue.record(id))?.status).toBe('running')
    workers.push(await startWorker(redis))
    await expect.poll(async () => queue.record(id)).toMatchObject({ run: 2, status: 'running' })
    workers.push(await startWorker(redis))
    await expect
      .poll(async () => (await queue.record(id))?.errorMessage)
      .toBe(
        'the worker was lost; it is the second worker that was lost while it executed this rollout',
      )
    await add(queue, `after-${id}`, 'asks', { policy })
    await expect.poll(async () => (await queue.record(`after-${id}`))?.status).toBe('success')
    expect(policy.asked()).not.toContain(id)
    for (const worker of workers) await worker.end()
  }
})

it('ignores a worker that was stopped for longer than its lock', { tags: 'slow' }, async () => {
  const { queue, redis } = await openQueue()
  const policy = await startHolding((id) => id === 'asked')
  const gate = await startHolding(() => true)
  const zombie = await startWorker(redis)
  await add(queue, 'asked', 'asks', { policy })
  await add(queue, 'unasked', 'passes a gate', { policy, gate })
  await Promise.all([policy.waitForRequest(0), gate.waitForRequest(0)])
  zombie.kill('SIGSTOP')
  await startWorker(redis)
  await expect
    .poll(async () => queue.record('unasked'))
    .toMatchObject({ status: 'success', run: 2 })
  await expect.poll(async () => (await queue.record('asked'))?.status).toBe('failure')

  // The answer that it waited for has arrived when it continues.
  policy.release()
  gate.release()
  zombie.kill('SIGCONT')
  await expect.poll(async () => (await queue.workers()).map(({ active }) => active)).toEqual([0, 0])
  expect(await queue.record('asked')).toMatchObject({ status: 'failure', run: 2, reward: null })
  expect(await queue.record('unasked')).toMatchObject({ status: 'success', calls: 1 })
  expect(policy.asked()).toEqual(['asked', 'unasked'])

  await add(queue, 'next', 'asks', { policy })
  await expect.poll(async () => (await queue.record('next'))?.status).toBe('success')
})

it(
  'fails a grading that waited for its server in a worker that was killed',
  { tags: 'slow' },
  async () => {
    const { queue, redis } = await openQueue()
    const policy = await startHolding(() => false)
    const worker = await startWorker(redis)
    const asked = { ...request, chatCompletionsUrl: policy.url }
    await queue.accept(
      entry({ request: { ...asked, initialMessages: [{ role: 'user', content: 'asks' }] } }),
    )
    await expect.poll(async () => (await queue.record('r1'))?.status).toBe('grading')
    await worker.end()
    await expect
      .poll(async () => queue.record('r1'))
      .toMatchObject({
        status: 'failure',
        errorMessage:
          'the worker was lost; the samples of the rollout were in it, so they are not graded',
      })
    expect((await storedWorkflow(queue, 'r1'))?.outcome.status).toBe('success')
  },
)

const lockMs = 2_000

/** A worker process. */
async function startWorker({ url }: RedisServer, concurrency = 20): Promise<TestServerProcess> {
  return startServerProcess(new URL('worker-process.ts', import.meta.url), {
    QUEUE_URL: url,
    QUEUE_LOCK_MS: String(lockMs),
    QUEUE_CONCURRENCY: String(concurrency),
  })
}

/** A policy, or a gate: holds the first request of each rollout in `holds` until it is released. */
async function startHolding(
  holds: (id: string) => boolean,
): Promise<PolicyServer & { readonly release: () => void; readonly asked: () => string[] }> {
  const seen = new Set<string>()
  const open = Promise.withResolvers<string>()
  const idOf = (headers: PolicyServer['requests'][number]['headers']): string =>
    String(headers['x-rollout-id'])
  const server = await startPolicyServer(async ({ headers }) => {
    const id = idOf(headers)
    const isFirst = !seen.has(id)
    seen.add(id)
    return isFirst && holds(id) ? open.promise : 'yes'
  })
  onTestFinished(async () => server.close())
  return Object.assign(server, {
    release: () => open.resolve('yes'),
    asked: () => server.requests.map(({ headers }) => idOf(headers)).toSorted(),
  })
}

/** Accepts a rollout that does this, and then calls its policy. */
async function add(
  queue: RolloutQueue,
  id: string,
  does: string,
  urls: { readonly policy: PolicyServer; readonly gate?: PolicyServer },
): Promise<void> {
  await queue.accept(
    entry({
      id,
      gradesAtOnce: true,
      request: {
        ...request,
        rolloutId: id,
        initialMessages: [{ role: 'user', content: does }],
        chatCompletionsUrl: urls.policy.url,
        metadata: { gate: urls.gate?.url },
      },
    }),
  )
}
