import { type AdapterUnderTest, runAdapterContract } from '@osmosis/testing'
import { beforeEach, describe, it, vi } from 'vitest'

import { isNewestVersion, separatesRollouts } from '../../../test/kit/index.ts'
import { generating, streaming } from './contract-agents.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

const exempt = isNewestVersion()
  ? {}
  : { 'grades-wrong-output': 'the first versions quote no text that is not JSON' }

function prove(name: string, adapter: AdapterUnderTest): void {
  const all = { ...adapter.exempt, ...exempt }
  runAdapterContract({ describe, it }, name, { ...adapter, exempt: all })
}

prove('generate', generating)
prove('stream', streaming)
prove('generate without streams', { ...generating, streams: false })

describe('many rollouts', { tags: 'nightly' }, () => {
  separatesRollouts('stream', streaming, 100)
})
