import { startRolloutWorker } from '@osmosis/bullmq'
import { silentLogger } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { ownProcess } from '@osmosis/server/protocols'

import {
  outcomeEntrypoints,
  type OutcomeEntrypoint,
} from '../../../../test/kit/outcomes/outcome-entrypoint.ts'

// A worker process for rollouts of the outcome table. Prints a line when it has started.
const { REDIS_URL = '', ENTRYPOINT = '', ARTIFACT_ROOT = '' } = process.env
const entrypoint = outcomeEntrypoints[ENTRYPOINT as OutcomeEntrypoint]
const worker = await startRolloutWorker({
  url: REDIS_URL,
  backend: new LocalBackend({ ...entrypoint, artifactRoot: ARTIFACT_ROOT }),
  code: ENTRYPOINT,
  concurrency: 4,
})
// User code that harms the process fails only its own rollout.
ownProcess(async () => worker.close(), silentLogger)
process.stdout.write('ready\n')
