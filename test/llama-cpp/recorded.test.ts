import { expect } from 'vitest'

import { withModelServer } from '../kit/model-server/index.ts'
import { shapeOfAnswer } from './answer-shape.ts'
import { realExchanges } from './real-exchanges.ts'
import { recording } from './recording.ts'
import { sharedServer } from './shared-server.ts'

const { it } = withModelServer()

// Where they differ, record them again: node test/llama-cpp/record.ts

it('a real server answers in the shapes that were recorded', async () => {
  const { server, loading } = await sharedServer()
  const now = await realExchanges(server, loading)
  const shapes = (exchanges: typeof now): unknown[] =>
    Object.entries(exchanges).map(([name, exchange]) => [name, shapeOfAnswer(exchange)])
  expect({ ...server.facts, shapes: shapes(now) }).toEqual({
    version: recording.version,
    options: recording.options,
    shapes: shapes(recording.exchanges),
  })
})
