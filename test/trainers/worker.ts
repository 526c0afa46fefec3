// The worker of the training run, and ways to break it that the account has to notice.
import { toRolloutSample } from '@osmosis/core'
import { discoverEntrypoint, LocalBackend, type ExecutionOutcome } from '@osmosis/server'
import { agentLightning, runTrainerWorker, type TrainerLink } from '@osmosis/trainer-links'

import * as agent from './agent.ts'
import { type WorkerSettings, worksAs } from './worker-settings.ts'

const settings = JSON.parse(process.argv[2] ?? '') as WorkerSettings
const { url, apiKey, concurrency, watchSeconds, abandonedAfterSeconds, breaks } = settings
const link = agentLightning({
  url,
  apiKey,
  watchSeconds,
  abandonedAfterSeconds: breaks === 'no reaping' ? 1e9 : abandonedAfterSeconds,
})
const ending = new AbortController()
process.once('SIGTERM', () => ending.abort())
process.stdout.write(`${worksAs}\n`)
await runTrainerWorker({
  backend: new LocalBackend(discoverEntrypoint(agent)),
  link: broken(link),
  concurrency,
  signal: ending.signal,
})
await link[Symbol.asyncDispose]()

function broken(whole: TrainerLink): TrainerLink {
  let before: ExecutionOutcome | undefined
  let count = 0
  return {
    name: whole.name,
    claim: async (free, signal) => whole.claim(free, signal),
    watch: async (task, signal) => whole.watch?.(task, signal),
    retry: async (task, end) => whole.retry?.(task, end) ?? null,
    acceptedEnd: (end) => whole.acceptedEnd?.(end) ?? end,
    async complete(task, end) {
      count += 1
      if (breaks === 'forgets' && count % 5 === 0) return
      const reported = breaks === 'swaps' && end.kind === 'rewarded' ? (before ?? end) : end
      if (end.kind === 'rewarded') before = end
      await whole.complete(task, breaks === 'zeros' && end.kind === 'failed' ? zero() : reported)
    },
    [Symbol.asyncDispose]: async () => {},
  }
}

/** What a failure must never become. */
function zero(): ExecutionOutcome {
  const sample = { ...toRolloutSample({ id: 'main', messages: [] }), reward: 0 }
  return { kind: 'rewarded', samples: new Map([['main', sample]]), removed: [] }
}
