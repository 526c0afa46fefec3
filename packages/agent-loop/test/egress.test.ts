import { OsmosisValidationError } from '@osmosis/agent-loop'
import { addressForms, resolveNames, statusAndBody } from '../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { loopOf, startApp, type RunningApp } from './running-app.ts'

/** All forms are tested with the policy in core. */
const samples = (['forbidden', 'private', 'public'] as const).flatMap((kind) =>
  addressForms.filter((form) => form.kind === kind).slice(0, 1),
)
const reasons = {
  forbidden: 'it leads to a link-local, multicast, unspecified or metadata address',
  private: 'it leads to a private address, and those are refused',
  public: 'its host is not among the allowed ones',
}

async function expectRefused(
  running: RunningApp,
  host: string,
  kind: keyof typeof reasons,
): Promise<void> {
  const answer = await statusAndBody(await running.init({ server_url: `http://${host}:8080` }))
  const msg = `this server does not connect there: ${reasons[kind]}`
  const detail = [{ type: 'value_error', loc: ['body', 'server_url'], msg }]
  expect([host, answer]).toStrictEqual([host, { status: 422, body: { detail } }])
}

describe('a loop server', () => {
  it('refuses trainers at metadata and link-local addresses, whatever the configuration', async () => {
    for (const egress of [undefined, { allowedHosts: ['*', '0.0.0.0/0', '[::/0]'] }]) {
      await using running = await startApp({ egress })
      for (const { host, kind } of samples) {
        if (kind === 'forbidden') await expectRefused(running, host, kind)
      }
      expect(running.trainer.completed).toStrictEqual([])
    }
  })

  it('serves the allowed trainers and no others', async () => {
    resolveNames({ 'trainer.test': [['127.0.0.1']] })
    await using running = await startApp({
      egress: { allowedHosts: ['trainer.test'], privateAddresses: 'refuse' },
    })
    for (const { host, kind } of samples) {
      await expectRefused(running, host, kind === 'forbidden' ? kind : 'public')
    }
    const server_url = running.trainer.url.replace('127.0.0.1', 'trainer.test')
    expect((await running.init({ server_url })).status).toBe(202)
    expect(await running.trainer.results()).toMatchObject([{ status: 'COMPLETED' }])
  })

  it('sends nothing to a trainer whose name resolves to a refused address, and gives up its result', async () => {
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
})
