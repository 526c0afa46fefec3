import { run, RunState, tool } from '@openai/agents'
import { type AgentWorkflowContext, OsmosisError } from '@osmosis/core'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { execute } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const askPay = { toolCalls: [{ id: 'c1', name: 'pay', arguments: '{"euros":5}' }] }
const askHelper = { toolCalls: [{ id: 'h1', name: 'helper', arguments: '{"input":"pay"}' }] }

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: true,
  execute: ({ euros }) => `paid ${euros}`,
})

/** What the rollout of a workflow fails with; null when it does not fail. */
async function failureOf(
  body: (ctx: AgentWorkflowContext, session: OsmosisMemorySession) => Promise<unknown>,
  replies: Parameters<typeof startPolicyServer>[0] = [askPay, 'done', 'done'],
): Promise<{ readonly code: string; readonly message: string } | null> {
  await using server = await startPolicyServer(replies)
  const { workflow } = await execute(server, async (ctx) =>
    body(ctx, new OsmosisMemorySession({ name: 'main' })),
  )
  if (workflow.failure === null) return null
  const { cause, message } = workflow.failure
  return { code: cause instanceof OsmosisError ? cause.code : '', message }
}

describe('an approval that the program does not give', () => {
  it.each([false, true])('fails the rollout, with streams: %s', async (stream) => {
    const failure = await failureOf(async (ctx, session) => {
      const options = { session, stream } as object
      const result: unknown = await run(policyAgent({ tools: [pay] }), ctx.prompt, options)
      await (result as { completed?: Promise<void> }).completed
    })
    expect(failure?.code).toBe('pending_approval')
    expect(failure?.message).toContain('approves or rejects pay(), and the program has not')
    expect(failure?.message).toContain('run(agent, result.state, { session })')
  })

  it('explains what fails because there is no answer yet', async () => {
    const failure = await failureOf(async (ctx, session) => {
      await run(policyAgent({ tools: [pay] }), ctx.prompt, { session })
      throw new TypeError('no answer to read')
    })
    expect(failure?.code).toBe('pending_approval')
    expect(failure?.message).toMatch(/Then thrown by run\(\) at \S+: no answer to read/)
  })

  it('fails the rollout when an agent that is a tool asks for it', async () => {
    const failure = await failureOf(
      async (ctx, session) => {
        const helper = policyAgent({ name: 'helper', tools: [pay] }).asTool({ toolName: 'helper' })
        await run(policyAgent({ tools: [helper] }), ctx.prompt, { session })
      },
      [askHelper, askPay],
    )
    expect(failure?.message).toContain('pay()')
  })
})

describe('a program that answers', () => {
  it.each(['approve', 'reject'] as const)('with %s goes on', async (answer) => {
    const failure = await failureOf(async (ctx, session) => {
      const agent = policyAgent({ tools: [pay] })
      let result = await run(agent, ctx.prompt, { session })
      while (result.interruptions.length > 0) {
        for (const item of result.interruptions) result.state[answer](item)
        result = await run(agent, result.state, { session })
      }
      expect(result.finalOutput).toBe('done')
    })
    expect(failure).toBeNull()
  })

  it.each([{ isOwn: false }, { isOwn: true }])(
    'goes on with the agent that is a tool and asked, with a session of its own: $isOwn',
    async ({ isOwn }) => {
      const failure = await failureOf(
        async (ctx, session) => {
          const runOptions = isOwn ? { session: new OsmosisMemorySession({ name: 'helper' }) } : {}
          const helper = policyAgent({ name: 'helper', tools: [pay] })
          const agent = policyAgent({
            tools: [helper.asTool({ toolName: 'helper', runOptions })],
          })
          const { state, interruptions } = await run(agent, ctx.prompt, { session })
          for (const item of interruptions) state.approve(item)
          const { finalOutput } = await run(agent, state, { session })
          expect(finalOutput).toBe('done')
        },
        [askHelper, askPay, 'helped', 'done'],
      )
      expect(failure).toBeNull()
    },
  )

  it('may go on with a state that it has stored', async () => {
    const failure = await failureOf(async (ctx, session) => {
      const agent = policyAgent({ tools: [pay] })
      const stopped = await run(agent, ctx.prompt, { session })
      const state = await RunState.fromString(agent, stopped.state.toString())
      for (const item of state.getInterruptions()) state.approve(item)
      await run(agent, state, { session })
    })
    expect(failure).toBeNull()
  })

  it('may end the conversation with a call that it rejects', async () => {
    const failure = await failureOf(async (ctx, session) => {
      const { state, interruptions } = await run(policyAgent({ tools: [pay] }), ctx.prompt, {
        session,
      })
      for (const item of interruptions) state.reject(item)
    })
    expect(failure).toBeNull()
  })
})
