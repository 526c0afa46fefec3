import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { prompting } from './contract-agents.ts'

runAdapterContract({ describe, it }, 'Agent', prompting)
runAdapterContract({ describe, it }, 'Agent without streams', {
  ...prompting,
  streams: false,
  concurrentRollouts: 2,
})
