import { run, tool } from '@openai/agents'
import { Grader, type GraderContext, lastAssistantText } from '@osmosis/core'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { fault, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { callAdd, execute, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

describe.each([{ stream: false }, { stream: true }])('with stream: $stream', ({ stream }) => {
  async function runToEnd(agent: ReturnType<typeof policyAgent>, options: object): Promise<void> {
    const session = new OsmosisMemorySession({ name: 'main' })
    if (!stream) {
      await run(agent, 'go', { ...options, session })
      return
    }
    const result = await run(agent, 'go', { ...options, session, stream: true })
    await result.completed
  }

  test('a run that a throwing tool ends is a sample with the call', async () => {
    await using server = await startPolicyServer([callAdd])
    const rollout = rolloutOn(server)
    const broken = tool({
      name: 'add',
      description: 'Breaks.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      errorFunction: null,
      execute: async () => {
        throw new RangeError('broken')
      },
    })
    const failing = rollout.run(async () => runToEnd(policyAgent({ tools: [broken] }), {}))
    await expect(failing).rejects.toThrow('broken')
    expect(kindsOf(await sampleOf(rollout, 'main')).slice(0, 2)).toEqual(['user', 'function_call'])
  })

  test('a call of an unknown tool ends the run with `toolNotFoundBehavior` of the SDK', async () => {
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'call-1', name: 'subtract', arguments: '{}' }] },
    ])
    const rollout = rolloutOn(server)
    const failing = rollout.run(async () =>
      runToEnd(policyAgent({ tools: [addTool()] }), { toolNotFoundBehavior: 'raise_error' }),
    )
    await expect(failing).rejects.toThrow('subtract')
    const { messages } = await sampleOf(rollout, 'main')
    expect(JSON.stringify(messages)).toContain('"name":"subtract"')
  })

  test('a run that ends well after one that failed is the sample', async () => {
    await using server = await startPolicyServer([fault.status(400), 'better'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      const session = new OsmosisMemorySession({ name: 'main' })
      await expect(run(policyAgent(), 'first', { session })).rejects.toThrow('400')
      if (stream) await (await run(policyAgent(), 'second', { session, stream: true })).completed
      else await run(policyAgent(), 'second', { session })
    })
    const sample = await sampleOf(rollout, 'main')
    expect(lastAssistantText(sample)).toBe('better')
    expect(kindsOf(sample).at(-2)).toBe('user')
  })
})

test('a failing run keeps what earlier runs of its session said', async () => {
  await using server = await startPolicyServer(['one', callAdd, fault.status(400)])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    const agent = policyAgent({ tools: [addTool()] })
    await run(agent, 'first', { session })
    await expect(run(agent, 'second', { session })).rejects.toThrow('400')
  })
  expect(kindsOf(await sampleOf(rollout, 'main'))).toEqual([
    'user',
    'assistant',
    'user',
    'function_call',
    'function_call_result',
  ])
})

test('a run that a guardrail ends before any model call leaves the sample as it was', async () => {
  await using server = await startPolicyServer(['one'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    const guarded = policyAgent({
      inputGuardrails: [
        {
          name: 'no',
          runInParallel: false,
          execute: async () => ({ tripwireTriggered: true, outputInfo: {} }),
        },
      ],
    })
    await run(policyAgent(), 'first', { session })
    await expect(run(guarded, 'second', { session })).rejects.toThrow('guardrail')
  })
  expect(kindsOf(await sampleOf(rollout, 'main')).slice(0, 2)).toEqual(['user', 'assistant'])
  expect(server.requests).toHaveLength(1)
})

test('a sample that is taken in the middle of a run holds what was said so far', async () => {
  await using server = await startPolicyServer([callAdd, 'done'])
  const rollout = rolloutOn(server)
  const seen: string[][] = []
  await rollout.run(async () => {
    const peek = tool({
      name: 'add',
      description: 'Peeks.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: async () => {
        seen.push(kindsOf(await sampleOf(rollout, 'main')))
        return 'ok'
      },
    })
    const session = new OsmosisMemorySession({ name: 'main' })
    await run(policyAgent({ tools: [peek] }), 'go', { session })
  })
  expect(seen).toEqual([['user', 'function_call']])
})

test('the error of the policy, not one of the SDK, is why a rollout failed', async () => {
  await using server = await startPolicyServer([fault.status(401)])
  const { workflow } = await execute(server, async ({ prompt }) =>
    run(policyAgent(), prompt, { session: new OsmosisMemorySession() }),
  )
  expect(workflow.failure).toMatchObject({
    category: 'http_error',
    message: expect.stringContaining('answered 401'),
  })
})

test('a streamed run that is not awaited is not a sample, and its session is named', async () => {
  await using server = await startPolicyServer([callAdd, 'done'])
  const left: Promise<unknown>[] = []
  const { workflow, grading } = await execute(
    server,
    async () => {
      const session = new OsmosisMemorySession({ name: 'main' })
      const agent = policyAgent({ tools: [addTool()] })
      const result = await run(agent, 'go', { session, stream: true })
      left.push(result.completed.catch((error: unknown) => error))
    },
    { label: '3', grader: RewardEverything },
  )
  await Promise.all(left)
  const hint: unknown = expect.stringMatching(/"main".*`await`.*stream was not read to its end/)
  expect(workflow.warnings).toEqual([hint])
  expect(grading?.failure).toMatchObject({ message: hint, cause: { code: 'no_samples' } })
})

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

describe('a failed call that nobody notices fails the rollout', () => {
  const cut = fault.on('an answer of which half arrives', { cutAfterBytes: 600 })
  const callHelper = { toolCalls: [{ id: 'c', name: 'helper', arguments: '{"input":"x"}' }] }
  const streamed = async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    return run(policyAgent({ tools: [addTool()] }), 'go', { session, stream: true })
  }

  test.each([
    ['refused', fault.status(400)],
    ['broken off', cut],
  ])('of an agent that is a tool: %s', async (_how, reply) => {
    await using server = await startPolicyServer([callHelper, reply, 'done'])
    const { workflow } = await execute(server, async () => {
      const helper = policyAgent({ name: 'helper' }).asTool({ toolName: 'helper' })
      const session = new OsmosisMemorySession({ name: 'main' })
      await run(policyAgent({ tools: [helper] }), 'go', { session })
    })
    expect(server.requests).toHaveLength(3)
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  })

  test.each<[string, () => Promise<void>]>([
    ['is awaited, and its error caught', async () => (await streamed()).completed.catch(() => {})],
    [
      'is read as a stream of Node.js with a handler of errors',
      async () => {
        const text = (await streamed()).toTextStream({ compatibleWithNodeStreams: true })
        await new Promise((resolve) => text.on('error', resolve).on('close', resolve).resume())
      },
    ],
  ])('of a streamed run that %s', async (_how, read) => {
    await using server = await startPolicyServer([callAdd, cut])
    const { workflow } = await execute(server, read)
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  })

  test('of a streamed run that nobody reads', async () => {
    await using server = await startPolicyServer([callAdd, fault.hang('body')])
    const { workflow } = await execute(server, async () => {
      await streamed()
      await server.waitForRequest(1)
    })
    expect(workflow.failure).toMatchObject({ cause: { code: 'rollout_ended' } })
  })

  test('of an agent that is a tool, whose input the SDK cannot send', async () => {
    await using server = await startPolicyServer([callHelper, 'done'])
    const { workflow } = await execute(server, async () => {
      const helper = tool({
        name: 'helper',
        description: 'Asks.',
        parameters: z.object({ input: z.string() }),
        execute: async () => {
          const file = { type: 'input_file', file: 'https://example.com/a.pdf' } as const
          const item = { role: 'user', content: [file] } as const
          const { finalOutput } = await run(policyAgent({ name: 'helper' }), [item as never])
          return String(finalOutput)
        },
      })
      const session = new OsmosisMemorySession({ name: 'main' })
      await run(policyAgent({ tools: [helper] }), 'go', { session })
    })
    expect(server.requests).toHaveLength(2)
    expect(workflow.status).toBe('failure')
  })
})
