import { requireRolloutContext } from '@osmosis/core'
import { runAdapterContract, type AdapterUnderTest, type ContractRun } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { langGraph, langGraphStream } from './agents/langgraph-agent.ts'
import { openai, openaiStream } from './agents/openai-agent.ts'

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

/** What an adapter promises holds for whatever is given the fetch of a sample. */
function overFetch(
  run: (run: ContractRun) => Promise<string>,
  exempt: AdapterUnderTest['exempt'] = {},
): AdapterUnderTest {
  return {
    run,
    construct: (name) => requireRolloutContext('The agent').registerPolicySample(name),
    callPlaceholder: async () => run({ name: 'solver', prompt: 'go' }),
    exempt: {
      'serves-users': 'the client of the test is for rollouts alone',
      'logs-tool-errors': 'a framework without an adapter tells only the program what a tool threw',
      'grades-turn-limits': 'the loop of the test has none',
      'grades-wrong-output': 'the loop of the test has no structured output',
      ...exempt,
    },
    // the slow tests run more.
    concurrentRollouts: 5,
  }
}
