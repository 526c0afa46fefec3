import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { MaxTokensError, StructuredOutputError } from '@strands-agents/sdk'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { blame } from '../../../test/kit/index.ts'

const cut = { content: 'cut', finishReason: 'length' as const }

const ask = async (config = {}) =>
  new OsmosisStrandsAgent({ name: 'main', model: new OsmosisRolloutModel(), ...config }).invoke(
    'go',
  )

describe('the policy is blamed for', () => {
  it('an answer that the token limit cut', async () => {
    expect(await blame([cut], async () => ask())).toBe('limit_reached: max_tokens')
  })

  it('an output that it does not give', async () => {
    const structuredOutputSchema = z.object({ sum: z.number() })
    const run = async () => ask({ structuredOutputSchema })
    expect(await blame(() => 'no call', run)).toBe('model_error: output')
  })
})

describe('the policy is not blamed for', () => {
  it('errors that the program makes, whatever their class', async () => {
    for (const thrown of [
      new MaxTokensError('x', undefined as never),
      new StructuredOutputError('x'),
      Object.assign(new Error('x'), { name: 'StructuredOutputError' }),
    ]) {
      const run = async () => {
        await ask()
        throw new Error('wrapped', { cause: thrown })
      }
      expect(await blame(['good'], run)).toBe('failure')
    }
  })

  it('an agent of another model whose answer the token limit cut', async () => {
    const model = new OsmosisRolloutModel({ trainable: false, purpose: 'judge' })
    const run = async () => {
      await ask()
      await new OsmosisStrandsAgent({ name: 'judge', model }).invoke('judge')
    }
    expect(await blame(['good', cut], run)).toBe('failure')
  })
})
