import { Agent } from '@mastra/core/agent'
import { rolloutModel } from '@osmosis/mastra'
import { beforeEach, vi } from 'vitest'

import { servesWhereItIsKept } from '../../../test/kit/index.ts'

const make = () => {
  const agent = new Agent({ id: 'a', name: 'a', instructions: '', model: rolloutModel('main') })
  return async () => agent.generate('go')
}

// Mastra writes each error to the console.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

servesWhereItIsKept(make)
