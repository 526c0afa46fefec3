import { runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { LoopAgent } from './adapter.ts'

runAdapterContract({ describe, it }, 'LoopAgent', {
  run: ({ name, prompt, tools = [], signal }) => new LoopAgent(name).ask(prompt, tools, signal),
  construct: (name) => new LoopAgent(name),
  callPlaceholder: () => new LoopAgent('outside'),
})
