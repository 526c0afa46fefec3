import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { separatesRollouts } from '../../../test/kit/index.ts'
import { agentClass, generating, streaming } from './contract-agents.ts'

runAdapterContract({ describe, it }, 'OsmosisToolLoopAgent', agentClass)
runAdapterContract({ describe, it }, 'generateText', generating)
runAdapterContract({ describe, it }, 'streamText', streaming)

const withoutStreams = { streams: false, concurrentRollouts: 2 }
runAdapterContract({ describe, it }, 'OsmosisToolLoopAgent without streams', {
  ...agentClass,
  ...withoutStreams,
})
runAdapterContract({ describe, it }, 'streamText without streams', {
  ...streaming,
  ...withoutStreams,
})

describe('many rollouts', { tags: 'nightly' }, () => {
  separatesRollouts('streamText', streaming, 200)
})
