import { requireRolloutContext, RolloutContext } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

interface Pause {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** How often the endpoint says so before it answers. */
  readonly times: number
}

async function startPaused({
  status,
  headers,
  times,
}: Pause): ReturnType<typeof startPolicyEndpoint> {
  return startPolicyEndpoint((response, n) => {
    if (n > times) return sendStream(response, answerStream('ok'))
    const error = { message: 'paused for new weights' }
    return response.writeHead(status, headers).end(JSON.stringify({ error }))
  })
}

const soon = { 'retry-after-ms': '5' }
const forever = Number.POSITIVE_INFINITY

function contextOf(chatCompletionsUrl: string): RolloutContext {
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl })
  context.registerSampleSource('main', { getSample: (id) => ({ id, messages: [] }) as never })
  return context
}

async function callsOf(context: RolloutContext): Promise<unknown> {
  return (await context.getSamples()).get('main')?.calls
}

describe('an endpoint that asks to wait', () => {
  it.each([429, 503])(
    'with %d is waited for, however often, at the cost of no retry',
    async (status) => {
      const policy = await startPaused({ status, headers: soon, times: 9 })
      const context = contextOf(policy.url)
      const answer = await context.policy('main').complete({ messages }, { retries: 0 })
      expect(answer.choices[0]?.message.content).toBe('ok')
      expect(policy.requests).toHaveLength(10)
      expect(await callsOf(context)).toMatchObject([{ attempts: 10, error: null }])
    },
  )

  it('because it loads its model is waited for, at the cost of no retry', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n > 4) return sendStream(response, answerStream('ok'))
      const error = { message: 'Loading model', type: 'unavailable_error', code: 503 }
      return response.writeHead(503).end(JSON.stringify({ error }))
    })
    const context = contextOf(policy.url)
    const answer = await context.policy('main').complete({ messages }, { retries: 0 })
    expect(answer.choices[0]?.message.content).toBe('ok')
    expect(await callsOf(context)).toMatchObject([{ attempts: 5, error: null }])
  })

  it('without a time, and for another reason, is not waited for', async () => {
    const policy = await startPaused({ status: 503, headers: {}, times: 1 })
    const call = contextOf(policy.url).policy('main').complete({ messages }, { retries: 0 })
    await expect(call).rejects.toMatchObject({ code: 'policy_http_error', status: 503 })
    expect(policy.requests).toHaveLength(1)
  })

  it('in the middle of a conversation costs nothing of it', async () => {
    const policy = await startPolicyEndpoint((response, n) =>
      n >= 2 && n <= 6
        ? response.writeHead(429, soon).end()
        : sendStream(response, answerStream(`a${n}`)),
    )
    const context = contextOf(policy.url)
    const conversation: { role: string; content: string }[] = []
    for (const content of ['q1', 'q2', 'q3']) {
      conversation.push({ role: 'user', content })
      const answer = await context.policy('main').complete({ messages: conversation })
      conversation.push({ role: 'assistant', content: String(answer.choices[0]?.message.content) })
    }
    expect(conversation.map(({ content }) => content)).toEqual(['q1', 'a1', 'q2', 'a7', 'q3', 'a8'])
    expect(await callsOf(context)).toMatchObject([
      { attempts: 1, extendsPrevious: true },
      { attempts: 6, extendsPrevious: true },
      { attempts: 1, extendsPrevious: true },
    ])
  })

  it('of zero or less is replaced by a backoff, until the endpoint answers', async () => {
    for (const said of ['0', '-5']) {
      const policy = await startPaused({ status: 429, headers: { 'retry-after': said }, times: 4 })
      await contextOf(policy.url).policy('main').complete({ messages }, { retries: 0 })
      expect(policy.requests).toHaveLength(5)
    }
  })

  it('without a time is down, and is tried as often as always', async () => {
    for (const headers of [{}, { 'retry-after': 'later' }] as Record<string, string>[]) {
      const policy = await startPaused({ status: 429, headers, times: forever })
      const asked = contextOf(policy.url).policy('main').complete({ messages }, { retries: 1 })
      await expect(asked).rejects.toMatchObject({ code: 'policy_http_error', status: 429 })
      expect(policy.requests).toHaveLength(2)
    }
  })

  it('and says that asking again is useless is believed', async () => {
    const headers = { ...soon, 'x-should-retry': 'false' }
    const policy = await startPaused({ status: 429, headers, times: forever })
    const asked = contextOf(policy.url).policy('main').complete({ messages })
    await expect(asked).rejects.toMatchObject({ status: 429 })
    expect(policy.requests).toHaveLength(1)
  })

  it('with another status is retried, not waited for', async () => {
    const policy = await startPaused({ status: 500, headers: soon, times: forever })
    const asked = contextOf(policy.url).policy('main').complete({ messages }, { retries: 1 })
    await expect(asked).rejects.toMatchObject({ status: 500 })
    expect(policy.requests).toHaveLength(2)
  })

  it('still has its retries when it is lost after the pause', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n <= 3) return response.writeHead(429, soon).end()
      if (n === 4) return response.destroy()
      return sendStream(response, answerStream('ok'))
    })
    const context = contextOf(policy.url)
    await context.policy('main').complete({ messages }, { retries: 1 })
    expect(await callsOf(context)).toMatchObject([{ attempts: 5 }])
  })
})

describe('the wait for an endpoint', () => {
  it('ends with the signal of the caller, also when a day was requested', async () => {
    const abort = new AbortController()
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(429, { 'retry-after': '86400' }).end()
      setTimeout(() => abort.abort(new Error('enough')), 20)
    })
    const asked = contextOf(policy.url)
      .policy('main')
      .complete({ messages }, { signal: abort.signal })
    await expect(asked).rejects.toThrow('enough')
    expect(policy.requests).toHaveLength(1)
  })

  it('ends with the cancellation of the rollout', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(503, { 'retry-after': '30' }).end()
      setTimeout(() => backend.cancel({ all: true }), 20)
    })
    const backend = new LocalBackend({ workflow: asking })
    const { completion } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion?.failure).toMatchObject({ message: 'cancelled', category: 'agent_error' })
  })

  it('ends at the deadline of the rollout, whose error says what was waited for', async () => {
    const policy = await startPaused({
      status: 429,
      headers: { 'retry-after': '30' },
      times: forever,
    })
    const backend = new LocalBackend({ workflow: asking })
    const asked = { chatCompletionsUrl: policy.url, agentTimeoutSeconds: 0.3 }
    const { completion } = await run(backend, asked)
    expect(completion?.failure).toMatchObject({
      category: 'timeout',
      message: expect.stringMatching(
        /^workflow exceeded its 0\.3s deadline while a model call waited for the policy: The policy endpoint answered 429: paused for new weights \(http/,
      ),
    })
  })
})

const asking = workflow(async () => {
  registerSamples('main')
  await requireRolloutContext('test').policy('main').complete({ messages })
})
