import { setTimeout as realTime } from 'node:timers/promises'

import { RolloutContext } from '@osmosis/core'
import { request } from 'undici'
import { answerStream, startPolicyEndpoint, type PolicyEndpoint } from '@osmosis/testing/kit'
import { expect, it, onTestFinished, vi } from 'vitest'

/** Makes the clock of undici run a thousand times faster: it counts the ticks of a timer. */
function hurryTimers(): void {
  const real = globalThis.setTimeout
  vi.stubGlobal(
    'setTimeout',
    (callback: (...args: unknown[]) => void, delay = 0, ...args: unknown[]) =>
      real(callback, delay / 1000, ...args),
  )
  onTestFinished(() => {
    vi.unstubAllGlobals()
  })
}

/** Is silent for the equivalent of many minutes, before its headers and again before its body. */
function startSlowPolicy(): Promise<PolicyEndpoint> {
  return startPolicyEndpoint(async (response) => {
    await realTime(2_000)
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    await realTime(2_000)
    response.end(answerStream('at last'))
  })
}

it('waits for a policy that is silent for longer than HTTP clients usually wait', async () => {
  const policy = await startSlowPolicy()
  hurryTimers()
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  const { choices } = await context.policy('main').complete({ messages: [] })
  expect(choices[0]?.message.content).toBe('at last')
  expect(policy.requests).toHaveLength(1)
})

it('is tested against a silence that a client with ordinary limits does not wait for', async () => {
  const policy = await startSlowPolicy()
  hurryTimers()
  await expect(
    request(`${policy.url}/chat/completions`, { method: 'POST', body: '{}' }),
  ).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' })
})
