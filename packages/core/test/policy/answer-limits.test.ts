import type { ServerResponse } from 'node:http'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  requireRolloutContext,
  RolloutContext,
  type AgentWorkflowContext,
  type PolicyLimits,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { run } from '../../../../test/kit/executed-rollouts.ts'
import {
  answerStream,
  chunk,
  eventStream,
  startPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]
/** Longer than the limit that applies when nobody sets one. Milliseconds. */
const hour = 3_600_000
const half = eventStream(chunk({ content: 'half' })).replace(/data: \[DONE\]\s*$/, '')

function ask(url: string, policyLimits: PolicyLimits): Promise<unknown> {
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url, policyLimits })
  return context.policy('main').complete({ messages })
}

describe('a policy that sends nothing more in the middle of its answer', () => {
  it.each([
    ['text/event-stream', half],
    ['application/json', '{"choices":['],
  ])('fails the call after the limit, as %s', async (contentType, started) => {
    let connectionClosed: Promise<unknown> | undefined
    const policy = await startPolicyEndpoint((response, _n, { closed }) => {
      connectionClosed = closed
      response.writeHead(200, { 'content-type': contentType }).write(started)
    })
    await expect(ask(policy.url, { silenceSeconds: 0.05 })).rejects.toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(
        /^The policy sent nothing for 0\.05 s in the middle of its answer: .*policyLimits\.silenceSeconds/,
      ) as string,
    })
    await connectionClosed
    // A second answer would be a second sample.
    expect(policy.requests).toHaveLength(1)
  })

  it('fails its rollout after the limit of the config of the workflow', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(half)
    })
    const config = defineWorkflowConfig({ name: 'short', policyLimits: { silenceSeconds: 0.05 } })
    class Asks extends AgentWorkflow<typeof config> {
      override async run(ctx: AgentWorkflowContext<typeof config>): Promise<void> {
        await requireRolloutContext('it')
          .registerPolicySample('main')
          .complete({ messages: [...ctx.prompt] })
      }
    }
    const backend = new LocalBackend({ workflow: Asks, workflowConfig: config })
    const { completion } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion).toMatchObject({
      status: 'failure',
      failure: { message: expect.stringContaining('sent nothing for 0.05 s') as string },
    })
  })

  it('has all the time it likes before its answer begins, and while the reader is slow', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const reading = Promise.withResolvers<void>()
    const policy = await startPolicyEndpoint(async (response) => {
      vi.advanceTimersByTime(hour)
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(half)
      await reading.promise
      response.end(answerStream(' late'))
    })
    const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    const stream = context.policy('main').stream({ messages })
    for await (const piece of stream) {
      expect(piece.choices).toBeDefined()
      vi.advanceTimersByTime(hour)
      reading.resolve()
    }
    expect((await stream.completion).choices[0]?.message.content).toBe('half late')
  })
})

describe('a line that does not end', () => {
  it.each([
    ['text/event-stream', 'data: "', /a line of more than 65536 bytes.*policyLimits\.maxLineBytes/],
    ['text/event-stream', 'data: ', /a line of more than 65536 bytes/],
    ['application/json', '"', /a JSON answer of more than 65536 bytes/],
  ])('fails the call at the limit, as %s %j', async (contentType, started, message) => {
    let sent = 0
    let connection: ServerResponse | undefined
    const policy = await startPolicyEndpoint(async (response) => {
      connection = response
      response.writeHead(200, { 'content-type': contentType }).write(started)
      while (!response.destroyed && sent < 2 ** 28) {
        response.write('x'.repeat(8192))
        sent += 8192
        await new Promise<void>((resolve) => setImmediate(resolve))
      }
    })
    await expect(ask(policy.url, { maxLineBytes: 65_536 })).rejects.toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(message) as string,
    })
    await expect.poll(() => connection?.destroyed).toBe(true)
    expect(sent).toBeLessThan(2 ** 28)
  })

  it(
    'ends at 32 MiB unless somebody says otherwise, and long answers of short lines do not',
    { tags: 'slow' },
    async () => {
      const line = 'x'.repeat(1024 * 1024)
      const policy = await startPolicyEndpoint((response, n) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        if (n === 1)
          response.end(
            eventStream(
              ...Array.from({ length: 34 }, () => chunk({ content: line })),
              chunk({}, 'stop'),
            ),
          )
        else response.write(`data: ${line.repeat(33)}`)
      })
      await expect(ask(policy.url, {})).resolves.toMatchObject({ object: 'chat.completion' })
      await expect(ask(policy.url, {})).rejects.toMatchObject({
        message: expect.stringContaining('a line of more than 33554432 bytes') as string,
      })
    },
  )
})

it.each([
  [{ silenceSeconds: 0 }, 'policyLimits.silenceSeconds of "w" must be a number above 0, got 0.'],
  [{ maxLineBytes: '1' }, 'policyLimits.maxLineBytes of "w" must be a number above 0, got 1.'],
  [
    { silence: 1 },
    'policyLimits of "w" has an unknown key "silence": it takes silenceSeconds, maxLineBytes, maxAnswerBytes, awaySeconds.',
  ],
])('a config with the limits %j is refused', (policyLimits, message) => {
  const define = () =>
    defineWorkflowConfig({ name: 'w', policyLimits: policyLimits as PolicyLimits })
  expect(define).toThrow(message)
})
