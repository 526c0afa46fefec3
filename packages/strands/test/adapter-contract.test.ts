import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { separatesRollouts } from '../../../test/kit/index.ts'
import { strands } from './contract-agents.ts'

runAdapterContract({ describe, it }, 'strands', strands)
runAdapterContract({ describe, it }, 'strands without streams', {
  ...strands,
  streams: false,
  concurrentRollouts: 2,
})

describe('many rollouts', { tags: 'nightly' }, () => {
  separatesRollouts('strands', strands, 200)
})
