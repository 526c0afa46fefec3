import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { agent, graph, streamedGraph } from './contract-agents.ts'

const runner = { describe, it }

runAdapterContract(runner, 'createAgent', agent)
runAdapterContract(runner, 'a graph', graph)
runAdapterContract(runner, 'a streamed graph', streamedGraph)
runAdapterContract(runner, 'a graph without streams', { ...graph, streams: false })
