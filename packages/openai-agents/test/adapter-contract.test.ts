import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { separatesRollouts } from '../../../test/kit/index.ts'
import { openaiAgents, streamingAgents } from './contract-agents.ts'

const withoutStreams = { streams: false, concurrentRollouts: 2 }

runAdapterContract({ describe, it }, 'openai-agents', openaiAgents)
runAdapterContract({ describe, it }, 'openai-agents without streams', {
  ...openaiAgents,
  ...withoutStreams,
})
runAdapterContract({ describe, it }, 'openai-agents that stream, without streams', {
  ...streamingAgents,
  ...withoutStreams,
})

describe('many rollouts', { tags: 'nightly' }, () => {
  separatesRollouts('openai-agents', openaiAgents, 200)
})
