import { isOsmosisError } from '@osmosis/core'
import { fault, startPolicyServer } from '@osmosis/testing'
import {
  configureLogging,
  ConstantBackoff,
  ContextWindowOverflowError,
  DefaultModelRetryStrategy,
  Graph,
  ModelError,
  ModelThrottledError,
} from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'

import { execute, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { kindsOf, policyAgent } from './rollout.ts'

const tooMany = fault.status(429)

async function failureOf(
  status: number,
  message: string,
): Promise<{ error: Error; requests: number }> {
  const reply = fault.status(status, { body: { error: { message } } })
  await using server = await startPolicyServer(() => reply)
  const run = rolloutOn(server).run(async () => policyAgent().invoke('go'))
  const error = await run.then(
    () => new Error('it did not fail'),
    (reason: Error) => reason,
  )
  return { error, requests: server.requests.length }
}

describe('a refusal of the policy', () => {
  test('is an error of Strands with the cause in it', async () => {
    const { error, requests } = await failureOf(400, 'unknown field')
    expect(error).toBeInstanceOf(ModelError)
    expect(error.message).toContain('answered 400: unknown field')
    expect(isOsmosisError(error.cause)).toBe(true)
    expect(requests).toBe(1)
  })

  test.each([
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    'The input is too long for this model.',
    'prompt is too long: 9000 tokens',
  ])('of a prompt that does not fit is an overflow: %s', async (message) => {
    const { error } = await failureOf(400, message)
    expect(error).toBeInstanceOf(ContextWindowOverflowError)
    expect(isOsmosisError(error.cause)).toBe(true)
  })

  test('of an overflow leaves the history as it was', async () => {
    const message = 'maximum context length exceeded'
    await using server = await startPolicyServer([
      'one',
      fault.status(400, { body: { error: { message } } }),
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const agent = policyAgent()
      await agent.invoke('first')
      await expect(agent.invoke('second')).rejects.toBeInstanceOf(ContextWindowOverflowError)
    })
    const { messages } = await sampleOf(rollout)
    expect(kindsOf(messages)).toEqual(['user:text', 'assistant:text', 'user:text'])
  })
})

describe('a policy that is busy', () => {
  test('is retried by Osmosis and not by Strands as well', async () => {
    await using server = await startPolicyServer(() => tooMany)
    const run = rolloutOn(server).run(async () => policyAgent().invoke('go'))
    await expect(run).rejects.toBeInstanceOf(ModelThrottledError)
    expect(server.requests).toHaveLength(3)
  })

  test('is retried by a retry strategy of the user', async () => {
    await using server = await startPolicyServer([tooMany, tooMany, tooMany, 'at last'])
    const rollout = rolloutOn(server)
    const backoff = new ConstantBackoff({ delayMs: 1 })
    const result = await rollout.run(async () => {
      const retryStrategy = new DefaultModelRetryStrategy({ maxAttempts: 2, backoff })
      return policyAgent({ retryStrategy }).invoke('go')
    })
    expect(result.toString()).toBe('at last')
    const { messages, calls } = await sampleOf(rollout)
    expect(kindsOf(messages)).toEqual(['user:text', 'assistant:text'])
    expect(calls).toHaveLength(2)
  })
})

test('an answer that is not an answer fails the rollout as http_error', async () => {
  for (const broken of [
    fault.on('half', { cutAfterBytes: 500 }),
    fault.on('half', { omit: ['finish', 'done'] }),
    fault.on('half', { errorData: 'out of memory' }),
    fault.raw('data: {"choices":[]}\n\ndata: [DONE]\n\n'),
  ]) {
    await using server = await startPolicyServer(() => broken)
    const { workflow } = await execute(server, async () => policyAgent().invoke('go'))
    expect(workflow.failure?.category).toBe('http_error')
    expect(server.requests).toHaveLength(1)
  }
})

describe('a failure that Strands makes a text of', () => {
  test('fails the rollout when the agent was used as a tool', async () => {
    await using server = await startPolicyServer(({ headers }, n) => {
      if (headers['x-sample-id'] === 'helper') return fault.status(401)
      if (n > 0) return 'It did not work.'
      return { toolCalls: [{ id: 'c', name: 'helper', arguments: '{"input":"hi"}' }] }
    })
    const { workflow } = await execute(server, async ({ prompt }) => {
      const helper = policyAgent({ name: 'helper' })
      const { messages } = await policyAgent({ messages: prompt, tools: [helper] })
        .invoke()
        .then(({ lastMessage }) => ({ messages: lastMessage }))
      expect(JSON.stringify(messages)).toContain('It did not work.')
    })
    expect(workflow.failure).toMatchObject({
      category: 'http_error',
      message: expect.stringContaining('answered 401'),
    })
  })

  test('fails the rollout when the agent was a node of a graph', async () => {
    const log: string[] = []
    const note = (message: unknown): void => void log.push(String(message))
    configureLogging({ debug: () => {}, info: note, warn: note, error: note })
    await using server = await startPolicyServer(() => fault.status(401))
    const { workflow } = await execute(server, async () => {
      const node = policyAgent({ name: 'node', id: 'node' })
      await new Graph({ nodes: [node], edges: [], maxSteps: 1, timeout: 20_000 }).invoke('go')
    })
    expect(log).toEqual([expect.stringMatching(/answered 401.* node execution failed$/)])
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  })

  test('fails the rollout when it was caught around a stream', async () => {
    await using server = await startPolicyServer(() => fault.status(401))
    const { workflow } = await execute(server, async () => {
      const read = async (): Promise<void> => {
        for await (const { type } of policyAgent().stream('go')) expect(type).not.toBe('')
      }
      await expect(read()).rejects.toThrow('401')
    })
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  })

  test('also when the workflow has caught it', async () => {
    await using server = await startPolicyServer(() => fault.status(401))
    const { workflow } = await execute(server, async () => {
      await expect(policyAgent().invoke('go')).rejects.toThrow('401')
    })
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  })

  test('does not when the agent did well the next time', async () => {
    await using server = await startPolicyServer(({ headers }, n) => {
      if (headers['x-sample-id'] === 'helper') return n === 1 ? fault.status(400) : 'fine'
      if (n > 3) return 'done'
      return { toolCalls: [{ id: `c-${n}`, name: 'helper', arguments: '{"input":"hi"}' }] }
    })
    const { workflow } = await execute(server, async ({ prompt }) => {
      const helper = policyAgent({ name: 'helper' })
      await policyAgent({ messages: prompt, tools: [helper] }).invoke()
    })
    expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  })
})
