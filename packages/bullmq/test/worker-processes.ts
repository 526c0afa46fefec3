import type { RolloutQueue } from '@osmosis/bullmq/records'
import { startPolicyServer, type PolicyServer } from '@osmosis/testing'
import {
  type RedisServer,
  type TestServerProcess,
  startServerProcess,
} from '../../../test/kit/index.ts'
import { onTestFinished } from 'vitest'

import { entry, request } from './queue-under-test.ts'

const lockMs = 2_000

/** A worker process. */
export async function startWorker(
  { url }: RedisServer,
  concurrency = 20,
): Promise<TestServerProcess> {
  return startServerProcess(new URL('worker-process.ts', import.meta.url), {
    QUEUE_URL: url,
    QUEUE_LOCK_MS: String(lockMs),
    QUEUE_CONCURRENCY: String(concurrency),
  })
}

/** A policy, or a gate: holds the first request of each rollout in `holds` until it is released. */
export async function startHolding(
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
export async function add(
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
