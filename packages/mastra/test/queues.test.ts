import { Agent } from '@mastra/core/agent'
import { rolloutModel } from '@osmosis/mastra'
import { servesWhereItIsKept } from '../../../test/kit/index.ts'
import { beforeEach, vi } from 'vitest'

const make = () => {
  const agent = new Agent({ id: 'a', name: 'a', instructions: '', model: rolloutModel('main') })
  return async () => agent.generate('go')
}

// Mastra writes each error to the console.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

servesWhereItIsKept(make)
