import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { separatesRollouts } from '../../../test/kit/index.ts'
import { agent, graph, streamedGraph } from './contract-agents.ts'

const runner = { describe, it }

runAdapterContract(runner, 'createAgent', agent)
runAdapterContract(runner, 'a graph', graph)
runAdapterContract(runner, 'a streamed graph', streamedGraph)
runAdapterContract(runner, 'a graph without streams', { ...graph, streams: false })

describe('many rollouts', { tags: 'nightly' }, () => {
  separatesRollouts('createAgent', agent, 100)
  separatesRollouts('a streamed graph', streamedGraph, 100)
})
