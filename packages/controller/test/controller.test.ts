import { createController, scriptedPolicy } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { callPolicy, grade, startRolloutServer } from './fake-rollout-server.ts'

const policy = scriptedPolicy(() => 'ok')

describe('createController', () => {
  it('listens on a loopback port of its own, with a token of its own', async () => {
    await using first = await createController({ policy })
    await using second = await createController({ policy })
    expect(first.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const { callbackToken, policyToken, url } = first
    expect(policyToken).toBe(callbackToken)
    const all = [callbackToken, url, second.callbackToken, second.url]
    expect(new Set(all).size).toBe(4)
    expect(callbackToken.length).toBeGreaterThanOrEqual(43)
  })

  it.each([
    [{ callbackToken: 'one' }, ['one', 'one']],
    [{ policyToken: 'two' }, ['two', 'two']],
    [{ callbackToken: 'one', policyToken: 'two' }, ['one', 'two']],
  ])('gives one token for callbacks and policy unless two are given: %j', async (given, both) => {
    await using controller = await createController({ policy, ...given })
    expect([controller.callbackToken, controller.policyToken]).toEqual(both)
  })

  it('answers health checks without a key, and 404 elsewhere', async () => {
    await using controller = await createController({ policy })
    const answers = [
      await fetch(`${controller.url}/health`),
      await fetch(`${controller.url}/v1/models`),
      await fetch(`${controller.url}/v1/rollouts/r/grader`),
    ]
    expect(await Promise.all(answers.map(async (a) => [a.status, await a.json()]))).toStrictEqual([
      [200, { status: 'ok' }],
      [404, { detail: 'Not Found' }],
      [404, { detail: 'Not Found' }],
    ])
  })

  it.each([{ callbackToken: '' }, { policyToken: ' ' }])(
    'refuses the empty token of %j',
    async (tokens) => {
      await expect(createController({ policy, ...tokens })).rejects.toMatchObject({
        code: 'invalid_config',
        message: `${Object.keys(tokens)[0]} must not be empty. Omit it for a random one.`,
      })
    },
  )

  it('refuses a token that no header can carry, without repeating it', async () => {
    await expect(createController({ policy, callbackToken: 'se same' })).rejects.toStrictEqual(
      new OsmosisError(
        'invalid_config',
        'callbackToken must be visible ASCII characters without spaces. Omit it for a random one.',
      ),
    )
  })

  it('names the address that is in use', async () => {
    await using first = await createController({ policy })
    const port = Number(new URL(first.url).port)
    await expect(createController({ policy, port })).rejects.toStrictEqual(
      new OsmosisError(
        'port_in_use',
        `Port ${port} of 127.0.0.1 is used by another program. Stop it, or choose another port; 0 picks a free one.`,
        { cause: expect.objectContaining({ code: 'EADDRINUSE' }) as Error },
      ),
    )
  })

  it.each([
    // No machine has this address.
    { host: '192.0.2.1', port: 0, why: 'EADDRNOTAVAIL' },
    { host: '127.0.0.1', port: 70_000, why: '65536' },
  ])('explains why it cannot listen on $host:$port', async ({ host, port, why }) => {
    await expect(createController({ policy, host, port })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(
        `^Port ${port} of ${host} cannot be opened: .*${why}`,
      ) as string,
    })
  })

  it('leaves the global Request and Response alone', async () => {
    const before = [globalThis.Request, globalThis.Response]
    await using controller = await createController({ policy })
    await fetch(`${controller.url}/health`)
    expect([globalThis.Request, globalThis.Response]).toStrictEqual(before)
  })
})

describe('closing a controller', () => {
  it('cancels what is running and can be done again', async () => {
    const endings: string[] = []
    await using server = await startRolloutServer()
    const controller = await createController({
      policy: { name: 'stuck', respond: () => new Promise(() => {}) },
      server: { url: server.url },
      onTerminal: ({ status }) => void endings.push(status),
    })
    const running = controller.run({ rolloutId: 'r', initialMessages: [] })
    const order = await server.order(0)
    const call = callPolicy(order)
    const started = performance.now()
    await Promise.all([
      controller.close(),
      controller.close(),
      expect(running).rejects.toMatchObject({ code: 'cancelled' }),
    ])
    await controller.close()
    expect(performance.now() - started).toBeLessThan(2000)
    expect([server.cancels, endings]).toStrictEqual([[{ ids: ['r'] }], ['cancelled']])
    await call.catch(() => 'cut off before it was read')
    await expect(fetch(`${controller.url}/health`)).rejects.toThrow('fetch failed')
    await expect(controller.run({ initialMessages: [] })).rejects.toMatchObject({
      code: 'cancelled',
    })
  })

  it('lets the acknowledgement of the last rollout out', async () => {
    await using server = await startRolloutServer()
    const controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ initialMessages: [] })
    const acknowledged = grade(await server.order(0))
    await running
    await controller.close()
    expect(await acknowledged).toStrictEqual([200, { ok: true }])
  })

  it('does not wait for idle connections', async () => {
    const controller = await createController({ policy })
    await (await fetch(`${controller.url}/health`)).text()
    const started = performance.now()
    await controller.close()
    // Node.js itself would wait for 5 s.
    expect(performance.now() - started).toBeLessThan(3000)
  })
})

describe('many rollouts at once', () => {
  it('keep their calls, tokens and samples apart', async () => {
    await using server = await startRolloutServer(async (order) => {
      const n = Number(order['label'])
      for (let call = 0; call <= n % 3; call += 1) await (await callPolicy(order)).text()
      await grade(order, {
        status: 'success',
        samples: { main: { id: 'main', messages: [], reward: n } },
      })
      return { status: 202 }
    })
    await using controller = await createController({ policy, server: { url: server.url } })
    const rows = [...Array(40).keys()]
    const results = await Promise.all(
      rows.map((n) => controller.run({ initialMessages: [], label: String(n) })),
    )
    expect(
      results.map(({ samples, policyCalls, usage }) => [
        samples.get('main')?.reward,
        policyCalls,
        usage.totalTokens,
      ]),
    ).toStrictEqual(rows.map((n) => [n, (n % 3) + 1, ((n % 3) + 1) * 2]))
  })
})
