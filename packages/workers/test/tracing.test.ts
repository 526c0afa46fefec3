import { createRolloutServer, serve } from '@osmosis/server'
import { FakeController, post, recordingLogger } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { openPool } from './pool-under-test.ts'

it('the trace of a request goes on in the model calls that a worker makes', async () => {
  await using controller = await new FakeController().start()
  const provider = new URL('./registered-provider.ts', import.meta.url).href
  const { pool } = await openPool({ workers: 1, execArgv: ['--import', provider] })
  const server = createRolloutServer({ backend: pool, logger: recordingLogger([]) })
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const body = controller.rolloutBody({ initial_messages: [{ role: 'user', content: 'ask' }] })
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  await post(`${listening.url}/rollout`, body, { traceparent })
  await controller.bodies()

  const [headers] = controller.policyHeaders
  expect(headers?.['traceparent']).toMatch(/^00-a{32}-[0-9a-f]{16}-01$/)
  expect(headers?.['traceparent']).not.toBe(traceparent)
})
