import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { streamed, whole } from './contract-agents.ts'

const runner = { describe, it }

runAdapterContract(runner, 'an LlmAgent', whole)
runAdapterContract(runner, 'a streaming LlmAgent', streamed)
runAdapterContract(runner, 'an LlmAgent without streams', { ...whole, streams: false })
