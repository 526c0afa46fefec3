import { RolloutContext, requireRolloutContext } from '@osmosis/core'
import { expect, it } from 'vitest'

import {
  answerStream,
  chunk,
  eventStream,
  execute,
  sendJson,
  sendStream,
  startPolicyEndpoint,
} from '../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]
const said = { role: 'assistant', content: 'hello' }

/** What an SDK does with a fetch that it was given. */
async function ask(
  fetch: typeof globalThis.fetch,
  body: object = {},
  init: RequestInit = {},
): Promise<Response> {
  return fetch('https://api.example.com/v1/chat/completions', {
    method: 'POST',
    body: JSON.stringify({ messages, ...body }),
    ...init,
  })
}

const cut = eventStream(chunk({ role: 'assistant', content: 'hel' })).replace(
  'data: [DONE]\n\n',
  '',
)

it('has the messages that went over the wire, and the ids of their tokens', async () => {
  const answer = { ...chunk({ role: 'assistant', content: 'hello' }), prompt_token_ids: [1, 2] }
  const end = {
    ...chunk({}),
    choices: [{ index: 0, delta: {}, finish_reason: 'stop', token_ids: [3] }],
  }
  const policy = await startPolicyEndpoint((response) =>
    sendStream(response, eventStream(answer, end)),
  )
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  const { fetch, baseUrl } = rollout.registerPolicySample('solver')
  expect(baseUrl).toBe(policy.url)
  await (await ask(fetch, { stream: true })).text()
  expect(policy.requests[0]?.headers).toMatchObject({
    'x-rollout-id': 'r',
    'x-sample-id': 'solver',
  })
  const sample = (await rollout.getSamples()).get('solver')
  expect(sample?.messages).toEqual([...messages, said])
  expect(sample?.trajectoryMessages).toEqual([...messages, said])
  expect(sample?.calls).toMatchObject([{ promptTokenIds: [1, 2], completionTokenIds: [3] }])
})

it('gives no sample before the first model call, and its name must be unique', async () => {
  const rollout = new RolloutContext({
    rolloutId: 'r',
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
  })
  rollout.registerPolicySample('solver')
  expect([...(await rollout.getSamples()).keys()]).toEqual([])
  expect(() => rollout.registerPolicySample('solver')).toThrow(
    expect.objectContaining({ code: 'duplicate_sample' }),
  )
})

it('fails the rollout when a stream failed and its reader ignored the error', async () => {
  const policy = await startPolicyEndpoint((response) => sendStream(response, cut))
  const { workflow } = await execute(policy, async () => {
    const { fetch } = requireRolloutContext('The test').registerPolicySample('solver')
    const response = await ask(fetch, { stream: true })
    await response.text().catch(() => 'what some frameworks make an empty answer of')
  })
  expect(workflow).toMatchObject({
    status: 'failure',
    failure: { category: 'http_error', message: expect.stringContaining('before') },
  })
})

it('fails the rollout when it has two samples of one name and a tool handled the error', async () => {
  const policy = await startPolicyEndpoint((response) =>
    sendStream(response, answerStream('hello')),
  )
  const { workflow } = await execute(policy, async () => {
    const rollout = requireRolloutContext('The test')
    const { fetch } = rollout.registerPolicySample('solver')
    await (await ask(fetch, { stream: true })).text()
    expect(() => rollout.registerPolicySample('solver')).toThrow('is already registered')
  })
  expect(workflow).toMatchObject({
    status: 'failure',
    failure: {
      category: 'validation_error',
      message: expect.stringContaining('"solver" is already registered'),
    },
  })
})

it('recovers from a failed stream when a later one is answered', async () => {
  const policy = await startPolicyEndpoint((response, n) =>
    sendStream(response, n === 1 ? cut : answerStream('hello')),
  )
  const { workflow } = await execute(policy, async () => {
    const { fetch } = requireRolloutContext('The test').registerPolicySample('solver')
    const first = await ask(fetch, { stream: true })
    await expect(first.text()).rejects.toThrow('before')
    await (await ask(fetch, { stream: true })).text()
  })
  expect(workflow.status).toBe('success')
})

it('fails the rollout when its last call failed and the framework continued without', async () => {
  const policy = await startPolicyEndpoint((response, n) =>
    n === 1
      ? sendStream(response, answerStream('hello'))
      : sendJson(response, 400, { error: { message: 'too long' } }),
  )
  const { workflow } = await execute(policy, async () => {
    const { fetch } = requireRolloutContext('The test').registerPolicySample('solver')
    expect((await ask(fetch)).status).toBe(200)
    expect((await ask(fetch)).status).toBe(400)
  })
  expect(workflow).toMatchObject({
    status: 'failure',
    failure: { category: 'http_error', message: expect.stringContaining('too long') },
  })
})

it('lets its reader abort a stream, or leave it', async () => {
  const policy = await startPolicyEndpoint((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify(chunk({ role: 'assistant', content: 'hel' }))}\n\n`)
  })
  const { workflow } = await execute(policy, async () => {
    const { fetch } = requireRolloutContext('The test').registerPolicySample('solver')
    const abort = new AbortController()
    const aborted = await ask(fetch, { stream: true }, { signal: abort.signal })
    abort.abort()
    await expect(aborted.text()).rejects.toThrow('aborted')
    const left = await ask(fetch, { stream: true })
    await left.body?.cancel()
  })
  expect(workflow.status).toBe('success')
})

it('fails the rollout when the workflow returns in the middle of a stream', async () => {
  const policy = await startPolicyEndpoint((response, n) => {
    if (n === 1) sendStream(response, answerStream('hello'))
    else response.writeHead(200, { 'content-type': 'text/event-stream' }).write(cut)
  })
  const { workflow } = await execute(policy, async () => {
    const { fetch } = requireRolloutContext('The test').registerPolicySample('solver')
    await (await ask(fetch, { stream: true })).text()
    await ask(fetch, { stream: true })
  })
  expect(workflow).toMatchObject({
    status: 'failure',
    failure: { category: 'agent_error', message: expect.stringContaining('await everything') },
  })
})
