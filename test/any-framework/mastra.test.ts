import { runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { mastra, mastraFetch } from './agents/mastra-agent.ts'
import { overFetch, overModel } from './over-fetch.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

// Streams are in contract.slow.test.ts.
runAdapterContract({ describe, it }, 'mastra', overModel(mastra))
runAdapterContract({ describe, it }, 'mastraFetch', overFetch(mastraFetch))
