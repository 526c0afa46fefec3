import { post, told } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { startFronts } from './fronts-under-test.ts'

it('a rollout accepted at one front is told by any, and its status is known at all', async () => {
  const { a, b, controller } = await startFronts()

  expect(await told(await a.post())).toStrictEqual({ status: 202, body: {} })
  expect(await controller.bodies()).toMatchObject([
    { rollout_id: 'r1', status: 'success', err_message: null },
    { rollout_id: 'r1', status: 'success', sample: { reward: 1 } },
  ])
  const status = { rollout_id: 'r1', status: 'success', reward: 1, err_message: null }
  expect(await a.get('/rollout/r1/status')).toStrictEqual(status)
  expect(await b.get('/rollout/r1/status')).toStrictEqual(status)
})

it('a repeated request is answered like the first one at any front, and another body is refused', async () => {
  const { a, b, controller } = await startFronts()
  await a.post()

  expect(await told(await b.post())).toStrictEqual({ status: 202, body: {} })
  expect((await b.post({ label: 'no' })).status).toBe(409)
  await controller.bodies()
  expect(await told(await b.post())).toStrictEqual({ status: 202, body: {} })
  expect((await b.post({ label: 'no' })).status).toBe(409)
  expect(controller.callbacks).toHaveLength(2)
})

it('a leased result is fetched at another front', async () => {
  const { a, b } = await startFronts()
  const handle = await a.start()
  const elsewhere = b.handle(handle)

  expect(await elsewhere.until()).toMatchObject({ status: 'success', sample: { reward: 1 } })
  expect((await handle.once()).text).toBe((await elsewhere.once()).text)
  expect((await handle.read(undefined, 'wrong')).status).toBe(403)
  expect((await elsewhere.read(undefined, 'wrong')).status).toBe(403)
  expect((await post(`${b.url}/rollout`, {})).status).toBe(422)
})
