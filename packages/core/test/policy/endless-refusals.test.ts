import { RolloutContext } from '@osmosis/core'
import type { ChatCompletion } from '@osmosis/core/policy'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { startPolicyEndpoint } from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

/** What a call to a policy at `url` fails with. */
async function failure(url: string): Promise<unknown> {
  return complete(url).then(
    () => expect.fail('should have been refused'),
    (error: unknown) => error,
  )
}

async function complete(chatCompletionsUrl: string): Promise<ChatCompletion> {
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl, apiKey: 'secret-key' })
  return rollout.policy('main').complete({ messages })
}

describe('a policy', () => {
  it('that does not stop talking about an error is cut off', async () => {
    let sent = 0
    const part = 'x'.repeat(64 * 1024)
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.write('{"error":{"message":"no: ')
      const more = (): void => {
        sent += part.length
        if (!response.destroyed) response.write(part, more)
      }
      more()
    })
    const error = await failure(policy.url)
    expect(await policy.requests[0]?.closed).toBe(true)
    expect(error).toMatchObject({
      status: 400,
      message: expect.stringMatching(/answered 400: {"error":{"message":"no: x{400,500} \(http/),
    })
    // What the sockets of both ends hold is sent before the reader is known to be gone.
    expect(sent).toBeLessThan(32 * 1024 * 1024)
  })

  it('that never finishes saying what is wrong is waited for 10 seconds, and shows no part of the key', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.write(String.raw`{"error":{"message":"bad \u0022key\u0022 secret-`)
      const clock = setInterval(() => vi.advanceTimersByTime(1_000), 5)
      response.on('close', () => clearInterval(clock))
    })
    const error = await failure(policy.url)
    expect(await policy.requests[0]?.closed).toBe(true)
    expect(error).toMatchObject({
      status: 400,
      message: `The policy endpoint answered 400: {"error":{"message":"bad "key"  (${policy.url}/chat/completions)`,
    })
  })
})
