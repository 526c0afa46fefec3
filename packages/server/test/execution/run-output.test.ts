import {
  AgentWorkflow,
  definePolicyFaults,
  defineWorkflowConfig,
  requireRolloutContext,
  type AgentWorkflowContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { startPolicyServer } from '@osmosis/testing'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  grader,
  registerSamples,
  run,
  type ExecutedRollout,
} from '../../../../test/kit/executed-rollouts.ts'
import { runs } from '../../../../test/kit/generated-runs.ts'

/** A rollout whose `run` is this function, and what its grader read. */
async function graded(
  body: (ctx: AgentWorkflowContext) => unknown,
  overrides: Parameters<typeof run>[1] = {},
  config: object = {},
): Promise<ExecutedRollout & { read: unknown }> {
  class Returning extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<unknown> {
      return body(ctx)
    }
  }
  let read: unknown = 'not read'
  const reading = grader((ctx) => {
    read = ctx.output
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  })
  const workflowConfig = defineWorkflowConfig({ name: 'output', ...config })
  const backend = new LocalBackend({ workflow: Returning, workflowConfig, grader: reading })
  return { ...(await run(backend, overrides)), read }
}

async function returning(value: unknown): ReturnType<typeof graded> {
  return graded(() => {
    registerSamples('main')
    return value
  })
}

describe('ctx.output of a grader', () => {
  it('is any JSON data that run() returned', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 5 }), async (value) => {
        fc.pre(!(Array.isArray(value) && value.length > 0 && value.every(hasRole)))
        const { read, grading } = await returning(value)
        const json = JSON.parse(JSON.stringify(value)) as unknown
        expect(read).toEqual(json)
        expect(grading?.samples.get('main')?.extraFields).toEqual({ run_output: json })
      }),
      { numRuns: runs(100) },
    )
  })

  it('is a copy: what run() changes later is not graded', async () => {
    const object = { price: 3 }
    const { read } = await graded(() => {
      registerSamples('main')
      queueMicrotask(() => setImmediate(() => (object.price = 4)))
      return object
    })
    expect(read).toEqual({ price: 3 })
    expect(read).not.toBe(object)
  })

  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  class Result {
    readonly text = 'of a framework'
  }
  it.each([
    ['nothing', undefined, 'run() returned nothing'],
    ['an instance', new Result(), 'run() returned an instance of Result'],
    ['a date in a list', { at: [new Date(0)] }, 'data in which .at[0] is an instance of Date'],
    ['NaN', { a: Number.NaN }, 'data in which .a is NaN'],
    ['a list with a hole', [undefined], 'data in which [0] is undefined'],
    ['a big number', 1n, 'run() returned a bigint'],
    ['a function', { run: () => {} }, 'data in which .run is a function'],
    ['a cycle', cycle, 'more than 90 nested levels'],
    ['a long text', 'a'.repeat(1024 * 1024), 'more than 1048576 bytes of JSON'],
    ['a text with many bytes', '😀'.repeat(300_000), 'more than 1048576 bytes of JSON'],
    ['a proxy that throws', { inner: refusing() }, 'run() returned an object that cannot be read'],
  ])('says why there is none for %s', async (_what, value, why) => {
    const { read, completion, grading } = await returning(value)
    expect(completion?.status).toBe('success')
    expect(read).toBe('not read')
    expect(grading?.failure).toMatchObject({ category: 'agent_error' })
    expect(grading?.failure?.message).toContain(why)
    expect(grading?.failure?.cause).toMatchObject({ code: 'no_output' })
    expect(grading?.samples.get('main')?.extraFields).toEqual({})
  })

  it('is none for a returned conversation, which is the sample', async () => {
    const { grading } = await graded(() => [{ role: 'assistant', content: '4' }])
    expect(grading?.failure?.message).toContain('run() returned its conversation')
  })

  it('is null when the policy ended the rollout before run() returned', async () => {
    class Unusable extends Error {}
    definePolicyFaults((error) => (error instanceof Unusable ? { error: 'output' } : undefined))
    await using server = await startPolicyServer(['no object', 'no object'])
    const call = async (): Promise<void> => {
      const policy = requireRolloutContext('The agent').registerPolicySample('main')
      const messages = [{ role: 'user', content: 'hi' }]
      await policy.complete({ messages })
    }
    const at = { chatCompletionsUrl: server.url }
    const unusable = await graded(async () => {
      await call()
      throw new Unusable('There is no object in the answer.')
    }, at)
    expect(unusable.grading?.samples.get('main')?.extraFields).toEqual({ model_error: 'output' })
    expect([unusable.read, unusable.grading?.status]).toEqual([null, 'success'])
  })
})

function hasRole(value: unknown): boolean {
  return typeof (value as { role?: unknown } | null)?.role === 'string'
}

function refusing(): object {
  return new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('closed')
      },
    },
  )
}
