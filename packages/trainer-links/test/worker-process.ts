// A worker in a process of its own, with the planned agent.
import { createStderrLogger } from '@osmosis/server'
import { agentLightning, runTrainerWorker } from '@osmosis/trainer-links'

import { plannedAgent } from './planned-agent.ts'

const { GATEWAY_URL: url = '', GATEWAY_KEY: apiKey } = process.env
const logger = createStderrLogger({ level: 'warn', format: 'json' })
const link = agentLightning({
  url,
  apiKey,
  logger,
  lookSeconds: 0.05,
  watchSeconds: 0.2,
  abandonedAfterSeconds: 1,
})
const ending = new AbortController()
process.once('SIGTERM', () => ending.abort())
const { backend } = plannedAgent()
const { signal } = ending
process.stdout.write('working\n')
await runTrainerWorker({ backend, link, concurrency: 16, signal, drainSeconds: 0, logger })
await link[Symbol.asyncDispose]()
