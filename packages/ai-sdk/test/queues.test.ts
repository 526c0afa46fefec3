import { rolloutModel } from '@osmosis/ai-sdk'
import { generateText } from 'ai'

import { servesWhereItIsKept } from '../../../test/kit/index.ts'

const make = () => {
  const model = rolloutModel()
  return async () => generateText({ model, prompt: 'go', maxRetries: 0 })
}

servesWhereItIsKept(make)
