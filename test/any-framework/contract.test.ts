import { runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { langGraph } from './agents/langgraph-agent.ts'
import { openaiStream } from './agents/openai-agent.ts'
import { overFetch } from './over-fetch.ts'

// LangChain advises to upgrade when it reads a call that was cut off.
beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
})

// The other way to ask each framework is in contract.slow.test.ts.
runAdapterContract({ describe, it }, 'openai, streamed', overFetch(openaiStream))
runAdapterContract(
  { describe, it },
  'LangGraph.js, invoke',
  overFetch(langGraph, {
    'empties-malformed-arguments': 'a graph takes such a turn for one without tool calls, and ends',
  }),
)
