import { withPrograms } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { killDuringDelivery } from './server-processes.ts'

const { it } = withPrograms('redis-server')

it('another server continues when one is killed while it waits for the answer to a callback', async () => {
  const body = await killDuringDelivery('completion')
  expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
})
