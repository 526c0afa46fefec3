import {
  defineWorkflowConfig,
  type PolicyLimits,
  requireRolloutContext,
  RolloutContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'
import { restartingServer } from '../../../../test/kit/restarting-server.ts'

const messages = [{ role: 'user', content: 'hi' }]

async function ask(
  chatCompletionsUrl: string,
  options: { readonly limits?: PolicyLimits; readonly signal?: AbortSignal } = {},
): Promise<{ said: unknown; attempts: unknown }> {
  const { limits: policyLimits, signal } = options
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl, policyLimits })
  context.registerSampleSource('main', { getSample: (id) => ({ id, messages: [] }) as never })
  const own = { retries: 0, ...(signal && { signal }) }
  const answer = await context.policy('main').complete({ messages }, own)
  const sample = (await context.getSamples()).get('main')
  return { said: answer.choices[0]?.message.content, attempts: sample?.calls?.[0]?.attempts }
}

it('a policy that refuses connections is waited for, at the cost of no retry', async () => {
  const server = await restartingServer((_, response) => sendStream(response, answerStream('ok')))
  const asked = ask(server.url)
  setTimeout(() => void server.start(), 300)
  const { said, attempts } = await asked
  expect(said).toBe('ok')
  expect(attempts).toBeGreaterThan(1)
})

it('a policy that restarts between two calls of a conversation costs nothing of it', async () => {
  const server = await restartingServer((_, response) => sendStream(response, answerStream('ok')))
  await server.start()
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: server.url })
  context.registerSampleSource('main', { getSample: (id) => ({ id, messages: [] }) as never })
  const policy = context.policy('main')
  await policy.complete({ messages }, { retries: 0 })
  await server.stop()
  setTimeout(() => void server.start(), 200)
  const more = [...messages, { role: 'assistant', content: 'ok' }, ...messages]
  await policy.complete({ messages: more }, { retries: 0 })
  expect((await context.getSamples()).get('main')?.calls).toMatchObject([
    { error: null },
    { error: null, extendsPrevious: true },
  ])
})

it('a policy that closes connections before it answers is waited for', async () => {
  const policy = await startPolicyEndpoint((response, n) =>
    n > 4 ? sendStream(response, answerStream('ok')) : response.socket?.destroy(),
  )
  expect(await ask(policy.url)).toEqual({ said: 'ok', attempts: 5 })
})

it.each([0, 0.1])(
  'a policy that is away for longer than %d s fails the call',
  async (awaySeconds) => {
    const { url } = await restartingServer(() => {})
    const started = performance.now()
    await expect(ask(url, { limits: { awaySeconds } })).rejects.toMatchObject({
      code: 'policy_unreachable',
    })
    const waited = performance.now() - started
    expect(waited).toBeGreaterThanOrEqual(awaySeconds * 1000)
    expect(waited).toBeLessThan(30_000)
  },
)

it('the signal of a call ends the wait', async () => {
  const { url } = await restartingServer(() => {})
  const signal = AbortSignal.timeout(50)
  await expect(ask(url, { signal })).rejects.toMatchObject({ name: 'TimeoutError' })
})

it('the deadline of a rollout ends the wait, and says what it waited for', async () => {
  const { url } = await restartingServer(() => {})
  const asking = workflow(async () => {
    registerSamples('main')
    await requireRolloutContext('test').policy('main').complete({ messages })
  })
  const asked = { chatCompletionsUrl: url, agentTimeoutSeconds: 1 }
  const { completion } = await run(new LocalBackend({ workflow: asking }), asked)
  expect(completion?.failure).toMatchObject({
    category: 'timeout',
    message: expect.stringMatching(
      /^workflow exceeded its 1s deadline while a model call waited for the policy: No answer from the policy endpoint: connect ECONNREFUSED/,
    ),
  })
})

it('a config sets how long its workflow waits', () => {
  const config = defineWorkflowConfig({ name: 'w', policyLimits: { awaySeconds: 0 } })
  expect(config.policyLimits).toEqual({ awaySeconds: 0 })
  const negative = { name: 'w', policyLimits: { awaySeconds: -1 } }
  expect(() => defineWorkflowConfig(negative)).toThrow(
    'policyLimits.awaySeconds of "w" must be at least 0, got -1.',
  )
})
