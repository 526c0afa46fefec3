import { OsmosisError } from '@osmosis/core'
import { isRetryablePolicyError, postToPolicy } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../policy-endpoint.ts'

const signal = new AbortController().signal

it('keeps the connection for the next request unless told to close it', async () => {
  const policy = await startPolicyEndpoint((response) => sendJson(response, 200, {}))
  const url = `${policy.url}/chat/completions`
  for (const closeConnection of [false, true]) {
    const { body } = await postToPolicy(url, {}, '{}', signal, { closeConnection })
    await body.resume().toArray()
  }
  expect(policy.requests.map(({ headers }) => headers.connection)).toStrictEqual([
    'keep-alive',
    'close',
  ])
})

it('says what the caller knows about an error status', async () => {
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(404).end('{"detail":"no such rollout"}')
  })
  const url = `${policy.url}/chat/completions`
  const error: unknown = await postToPolicy(url, {}, '{}', signal, {
    hints: { 404: '. Look at server_url.' },
  }).catch((thrown: unknown) => thrown)
  expect(error).toStrictEqual(
    new OsmosisError(
      'policy_http_error',
      `The policy endpoint ${url} answered 404: no such rollout. Look at server_url.`,
      { status: 404, retryAfterMs: undefined },
    ),
  )
  expect(isRetryablePolicyError(error)).toBe(false)
})
