// @module-tag slow
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { RolloutContext } from '@osmosis/core'
import { expect, it, onTestFinished } from 'vitest'

import { countAlive } from '../../../../test/kit/index.ts'
import { containUserCode } from '../../src/containment/contain-user-code.ts'

it('connections that tools of many rollouts share do not keep rollouts in memory', async () => {
  onTestFinished(containUserCode({ onUnattributed: (error) => expect.fail(String(error)) }))
  let open = 0
  const server = createServer((_, response) => response.end('ok'))
    .on('connection', (socket) => {
      open += 1
      socket.on('close', () => (open -= 1))
    })
    .listen(0, '127.0.0.1')
  server.keepAliveTimeout = 0
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo

  const rollouts: WeakRef<RolloutContext>[] = []
  const run = async (n: number): Promise<void> => {
    const chatCompletionsUrl = 'http://127.0.0.1:1/v1'
    const rollout = new RolloutContext({ rolloutId: `r${n}`, chatCompletionsUrl })
    rollouts.push(new WeakRef(rollout))
    await rollout.run(async () => (await fetch(`http://127.0.0.1:${port}/`)).text())
  }
  await Promise.all(Array.from({ length: 10 }, async (_, n) => run(n)))

  await expect.poll(() => countAlive(rollouts)).toBe(0)
  expect(open).toBeGreaterThan(0)
})
