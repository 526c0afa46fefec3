import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { langGraphStream } from './agents/langgraph-agent.ts'
import { openai } from './agents/openai-agent.ts'
import { overFetch } from './over-fetch.ts'

const many = { concurrentRollouts: 20 }
runAdapterContract({ describe, it }, 'openai, whole answers', { ...overFetch(openai), ...many })
runAdapterContract({ describe, it }, 'LangGraph.js, stream', {
  ...overFetch(langGraphStream, {
    'never-runs-cut-calls':
      'ChatOpenAI completes arguments that were cut off when it streams; OsmosisChatModel does not',
  }),
  ...many,
})
