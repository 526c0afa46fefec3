import { requireRolloutContext } from '@osmosis/core'
import { type AdapterUnderTest, type ContractRun, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { langGraph, langGraphStream } from './agents/langgraph-agent.ts'
import { openai, openaiStream } from './agents/openai-agent.ts'

// What an adapter promises holds for whatever is given the fetch of a sample.
function overFetch(
  run: (run: ContractRun) => Promise<string>,
  exempt: AdapterUnderTest['exempt'] = {},
): AdapterUnderTest {
  return {
    run,
    construct: (name) => requireRolloutContext('The agent').registerPolicySample(name),
    callPlaceholder: async () => run({ name: 'solver', prompt: 'go' }),
    exempt,
    concurrentRollouts: 50,
  }
}

runAdapterContract({ describe, it }, 'openai, whole answers', overFetch(openai))
runAdapterContract({ describe, it }, 'openai, streamed', overFetch(openaiStream))
runAdapterContract(
  { describe, it },
  'LangGraph.js, invoke',
  overFetch(langGraph, {
    'empties-malformed-arguments': 'a graph takes such a turn for one without tool calls, and ends',
  }),
)
runAdapterContract({ describe, it }, 'LangGraph.js, stream', overFetch(langGraphStream))
