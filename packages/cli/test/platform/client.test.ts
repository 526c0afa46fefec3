import { expect, it } from 'vitest'

import { PlatformStandIn } from '../../../../test/kit/index.ts'
import { clientOf } from './on-platform.ts'

it('says who asks, for which workspace, and with which version', async () => {
  const platform = await PlatformStandIn.start()
  const client = clientOf(platform, { token: 'standing-token', scope: { git: 'acme/lab' } })
  await client.request(['datasets'], { query: { limit: 1, offset: 0, cursor: undefined } })
  expect(platform.requests[0]?.headers).toMatchObject({
    'content-type': 'application/json',
    'user-agent': 'osmosis-cli/1.2.3',
    'x-osmosis-cli-version': '1.2.3',
    authorization: 'Bearer standing-token',
    'x-osmosis-git': 'acme/lab',
  })
  expect(String(platform.requests[0]?.query)).toBe('limit=1&offset=0')
})

it('encodes names as a whole, and takes none for a folder', async () => {
  const platform = await PlatformStandIn.start()
  const client = clientOf(platform, { token: 'standing-token', scope: { workspace: 'lab' } })
  await expect(client.request(['datasets', 'a/../b?c'])).rejects.toMatchObject({
    message: 'There is no dataset a/../b?c.',
  })
  for (const name of ['..', '.', '']) {
    await expect(client.request(['datasets', name])).rejects.toMatchObject({
      platformCode: 'VALIDATION',
    })
  }
  expect(platform.requests).toHaveLength(1)
})

it('gives up after its time, once', async () => {
  const platform = await PlatformStandIn.start()
  platform.fail('GET verify', 'hang')
  const client = clientOf(platform, { token: 'standing-token' })
  await expect(client.request(['verify'], { timeoutMs: 500 })).rejects.toMatchObject({
    platformCode: 'PLATFORM_ERROR',
    code: 'platform_unreachable',
    message: `No answer from the platform ${platform.url}: nothing came in 0.5 s`,
  })
  // A machine that is very slow has not asked before the time is over.
  expect(platform.calls.length).toBeLessThanOrEqual(1)
})

it('an empty answer is an empty object', async () => {
  const platform = await PlatformStandIn.start()
  const client = clientOf(platform, { token: 'standing-token' })
  expect(await client.request(['tokens', 'token-9'], { method: 'DELETE' })).toEqual({})
})

it('the end of the caller is the end of a request', async () => {
  const platform = await PlatformStandIn.start()
  const stop = new AbortController()
  platform.fail('GET verify', 'hang')
  const asked = clientOf(platform, { signal: stop.signal }).request(['verify'])
  stop.abort(new Error('stopped'))
  await expect(asked).rejects.toThrow('stopped')
})

it('reads a list no further than it moves on', async () => {
  const platform = await PlatformStandIn.start()
  for (const id of [0, 1, 2]) {
    const body = { datasets: [{ id }], has_more: true, next_offset: 1 }
    platform.fail('GET datasets', { body })
  }
  const { items } = await clientOf(platform).list(['datasets'], 'datasets', { all: true })
  expect(items).toEqual([{ id: 0 }, { id: 1 }])
  expect(platform.requests.map(({ query }) => query.get('offset'))).toEqual(['0', '1'])
})
