import { runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { langGraph, langGraphStream } from './agents/langgraph-agent.ts'
import { openai, openaiStream } from './agents/openai-agent.ts'
import { overFetch } from './over-fetch.ts'

// LangChain advises to upgrade when it reads a call that was cut off.
beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
})

runAdapterContract({ describe, it }, 'openai, streamed', overFetch(openaiStream))
runAdapterContract(
  { describe, it },
  'LangGraph.js, invoke',
  overFetch(langGraph, {
    'empties-malformed-arguments': 'a graph takes such a turn for one without tool calls, and ends',
  }),
)

describe('the other way to ask each framework', { tags: 'slow' }, () => {
  const many = { concurrentRollouts: 20 }
  runAdapterContract({ describe, it }, 'openai, whole answers', { ...overFetch(openai), ...many })
  runAdapterContract({ describe, it }, 'LangGraph.js, stream', {
    ...overFetch(langGraphStream, {
      'never-runs-cut-calls':
        'ChatOpenAI completes arguments that were cut off when it streams; OsmosisChatModel does not',
    }),
    ...many,
  })
})
