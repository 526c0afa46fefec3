import { withPrograms } from '@osmosis/testing/kit'
import { expect } from 'vitest'

import { killWhileTelling } from './front-processes.ts'

const { it } = withPrograms('redis-server')

it('a front is killed while it waits for the answer to a callback: another one tells the rest', async () => {
  const body = await killWhileTelling('completion')
  expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
})
