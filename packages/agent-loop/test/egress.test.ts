import { OsmosisValidationError } from '@osmosis/agent-loop'
import type { EgressOptions } from '@osmosis/core'
import { expect, it } from 'vitest'

import { addressForms, resolveNames, statusAndBody } from '../../../test/kit/index.ts'
import { loopOf, startApp } from './running-app.ts'

const reasons = {
  forbidden: 'it leads to a link-local, multicast, unspecified or metadata address',
  private: 'it leads to a private address, and those are refused',
  public: 'its host is not among the allowed ones',
}

// All forms of addresses are tested with the policy in core.
it.each<[keyof typeof reasons, EgressOptions | undefined]>([
  ['forbidden', undefined],
  ['forbidden', { allowedHosts: ['*', '0.0.0.0/0', '[::/0]'] }],
  ['private', { privateAddresses: 'refuse' }],
  ['public', { allowedHosts: ['trainer.test'] }],
])('a loop server refuses trainers at %s addresses with %j', async (kind, egress) => {
  const { host } = addressForms.find((form) => form.kind === kind) ?? {}
  await using running = await startApp({ egress })
  const answer = await statusAndBody(await running.init({ server_url: `http://${host}:8080` }))
  const msg = `this server does not connect there: ${reasons[kind]}`
  const detail = [{ type: 'value_error', loc: ['body', 'server_url'], msg }]
  expect([host, answer]).toStrictEqual([host, { status: 422, body: { detail } }])
  expect(running.trainer.completed).toStrictEqual([])
})

it('a loop server serves a trainer that is allowed by its name', async () => {
  resolveNames({ 'trainer.test': [['127.0.0.1']] })
  const egress: EgressOptions = { allowedHosts: ['trainer.test'], privateAddresses: 'refuse' }
  await using running = await startApp({ egress })
  const server_url = running.trainer.url.replace('127.0.0.1', 'trainer.test')
  expect((await running.init({ server_url })).status).toBe(202)
  expect(await running.trainer.results()).toMatchObject([{ status: 'COMPLETED' }])
})

it('a loop server sends nothing to a trainer whose name resolves to a refused address, and gives up its result', async () => {
  resolveNames({ 'trainer.test': [['169.254.169.254']] })
  const thrown: unknown[] = []
  const loop = loopOf(async (ctx) => {
    await ctx.chat(ctx.request.messages).catch((error: unknown) => thrown.push(error))
    return ctx.complete([])
  })
  await using running = await startApp({ loop })
  const { port } = new URL(running.trainer.url)
  await running.init({ server_url: `http://trainer.test:${port}` })
  await running.app.drain()

  expect(thrown).toMatchObject([{ code: 'egress_refused' }])
  expect(thrown[0]).toBeInstanceOf(OsmosisValidationError)
  expect(running.app.undelivered).toBe(0)
  const lost = running.log.filter(({ message }) => message === 'callback not delivered')
  expect(lost).toMatchObject([
    { fields: { callback: 'completed', outcome: 'refused', attempts: 1 } },
  ])
})
