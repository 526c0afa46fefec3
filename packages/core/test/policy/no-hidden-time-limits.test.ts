import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { answerStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const caller = fileURLToPath(new URL('hurried-caller.ts', import.meta.url))

it('waits for a policy that is silent for longer than HTTP clients usually wait', async () => {
  const headersOfOurs = Promise.withResolvers<void>()
  const gaveUp = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  let ordinaryCalls = 0
  // Is silent before its headers until an ordinary client has given up waiting for them, and before
  // its body until one has given up waiting for that.
  const policy = await startPolicyEndpoint(async (response, _n, { headers, closed }) => {
    if (headers['x-rollout-id'] === undefined) {
      const isFirst = ordinaryCalls++ === 0
      if (!isFirst) {
        await headersOfOurs.promise
        response.flushHeaders()
      }
      await closed
      gaveUp[isFirst ? 0 : 1].resolve()
      return
    }
    await gaveUp[0].promise
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    headersOfOurs.resolve()
    await gaveUp[1].promise
    response.end(answerStream('at last'))
  })
  const { stdout } = await promisify(execFile)(process.execPath, [caller, policy.url])
  expect(JSON.parse(stdout)).toStrictEqual({
    ordinary: ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
    ours: 'at last',
  })
  expect(policy.requests).toHaveLength(3)
})
