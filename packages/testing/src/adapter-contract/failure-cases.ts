import assert from 'node:assert/strict'

import { errorCategory, RolloutContext } from '@osmosis/core'

import { fault } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import type { ContractCase } from './adapter-under-test.ts'
import { addTool, contractRollout, executeRollout, messagesOf } from './contract-rollout.ts'
import type { ContractRule } from './contract-rules.ts'

const callAdd = {
  content: 'Let me add that up.',
  toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a":1,"b":2}' }],
}

/** An error ends the run, is reported once, and never becomes an answer. */
export const failureCases = {
  'retries-before-answer': async (adapter) => {
    await using server = await startPolicyServer([fault.status(503), 'done'], adapter)
    const text = await contractRollout(server).run(async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    assert.equal(text, 'done')
    assert.equal(server.requests.length, 2)
  },

  'refused-once': async (adapter) => {
    await using server = await startPolicyServer(() => fault.status(401), adapter)
    const run = contractRollout(server).run(async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    await assert.rejects(run, (error) => errorCategory(error) === 'http_error')
    assert.equal(server.requests.length, 1)
  },

  'stays-within-egress': async (adapter) => {
    await using server = await startPolicyServer(() => 'this is out of reach', adapter)
    const rollout = new RolloutContext({
      rolloutId: 'rollout-1',
      chatCompletionsUrl: server.url,
      egress: { privateAddresses: 'refuse' },
    })
    const run = rollout.run(async () => adapter.run({ name: 'solver', prompt: 'go' }))
    await assert.rejects(run, (error) => errorCategory(error) === 'http_error')
    assert.equal(server.requests.length, 0)
  },

  'cut-is-no-answer': async (adapter) => {
    const answer = 'an answer of which only half will ever arrive'
    await using server = await startPolicyServer(
      () => fault.on(answer, { cutAfterBytes: adapter.streams === false ? 70 : 700 }),
      adapter,
    )
    const { workflow, grading } = await executeRollout(server, async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    assert.equal(server.requests.length, 1)
    assert.equal(workflow.failure?.category, 'http_error')
    assert.equal(grading.status, 'failure')
    assert.deepEqual([...grading.samples.values()], [])
  },

  'keeps-failed-runs': async (adapter) => {
    await using server = await startPolicyServer([callAdd, fault.status(400)], adapter)
    const rollout = contractRollout(server)
    const run = rollout.run(async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
    )
    await assert.rejects(run, (error) => errorCategory(error) === 'http_error')
    const sample = (await rollout.getSamples()).get('solver')
    assert.match(JSON.stringify(sample?.messages), /Let me add that up\.[^]*sum: 3/)
    assert.deepEqual(sample?.trajectoryMessages, messagesOf(server.requests[1]))
  },

  'aborts-for-real': async (adapter) => {
    await using server = await startPolicyServer([callAdd, fault.hang('body')], adapter)
    const rollout = contractRollout(server)
    const abort = new AbortController()
    const run = rollout.run(async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool], signal: abort.signal }),
    )
    const hanging = await server.waitForRequest(1)
    abort.abort()
    // Frameworks differ in whether an aborted run rejects; it must not continue.
    await Promise.allSettled([run])
    assert.equal(await hanging.closed, true)
    assert.equal(server.requests.length, 2)
    const sample = (await rollout.getSamples()).get('solver')
    assert.match(JSON.stringify(sample?.messages), /Let me add that up\.[^]*sum: 3/)
    assert.deepEqual(sample?.trajectoryMessages, messagesOf(hanging))
  },

  'ends-at-deadline': async (adapter) => {
    await using server = await startPolicyServer(() => fault.hang('headers'), adapter)
    const { workflow } = await executeRollout(
      server,
      async () => adapter.run({ name: 'solver', prompt: 'go' }),
      0.5,
    )
    assert.equal(workflow.failure?.category, 'timeout')
    // A machine that is very slow has not asked before the deadline.
    assert.ok(server.requests.length <= 1)
    for (const { closed } of server.requests) assert.equal(await closed, true)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>
