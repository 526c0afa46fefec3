import { runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { langGraphStream } from './agents/langgraph-agent.ts'
import { mastraStream } from './agents/mastra-agent.ts'
import { openai } from './agents/openai-agent.ts'
import { overFetch, overModel } from './over-fetch.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

const many = { concurrentRollouts: 20 }
runAdapterContract({ describe, it }, 'openai, whole answers', { ...overFetch(openai), ...many })
runAdapterContract({ describe, it }, 'LangGraph.js, stream', {
  ...overFetch(langGraphStream),
  ...many,
})
runAdapterContract({ describe, it }, 'mastraStream', { ...overModel(mastraStream), ...many })
