import path from 'node:path'

import { createRolloutServer, serve } from '@osmosis/server'
import { createWorkerPool } from '@osmosis/server/child'
import { LocalBackend } from '@osmosis/server/execution'

import {
  outcomeEntrypoints,
  type OutcomeEntrypoint,
} from '../../../../../test/kit/outcomes/outcome-entrypoint.ts'

// The server process of the outcome table; environment variables choose its backend.
// Prints its URL when it listens.
const { BACKEND, ENTRYPOINT = '', OUTBOX_DIR, ARTIFACT_ROOT = '' } = process.env
const entrypoint = ENTRYPOINT as OutcomeEntrypoint

const backend =
  BACKEND === 'LocalBackend'
    ? new LocalBackend({ ...outcomeEntrypoints[entrypoint], artifactRoot: ARTIFACT_ROOT })
    : await createWorkerPool({
        module: path.join(import.meta.dirname, 'outcome-worker.ts'),
        args: [entrypoint, ARTIFACT_ROOT],
        // Workers must not get the arguments of this process.
        execArgv: [],
        workers: 1,
      })
const server = createRolloutServer({
  backend,
  trajectories: false,
  drainSeconds: 0,
  outboxDir: OUTBOX_DIR,
  callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
})
const { url } = await serve(server, { port: 0 })
process.stdout.write(`${url}\n`)
