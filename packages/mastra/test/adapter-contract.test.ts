import { runAdapterContract } from '@osmosis/testing'
import { separatesRollouts } from '../../../test/kit/index.ts'
import { beforeEach, describe, it, vi } from 'vitest'

import { generating, streaming } from './contract-agents.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

runAdapterContract({ describe, it }, 'generate', generating)
runAdapterContract({ describe, it }, 'stream', streaming)
runAdapterContract({ describe, it }, 'generate without streams', { ...generating, streams: false })

describe('many rollouts', { tags: 'slow' }, () => {
  separatesRollouts('stream', streaming, 100)
})
