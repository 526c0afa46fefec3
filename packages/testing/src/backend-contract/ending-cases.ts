import assert from 'node:assert/strict'

import { OsmosisError } from '@osmosis/core'

import { fault } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import { executeScripted, type BackendCase } from './backend-case.ts'
import type { BackendRule } from './backend-rules.ts'
import { assertFailure } from './outcome-cases.ts'

const lateWorkflow = /^workflow exceeded its 0\.1s deadline( \(\d+\.\ds of it spent queued\))?$/

/** What ends rollouts before their code does. */
export const endingCases = {
  'ends-workflows': async (open) => {
    const backend = await open('unlimited')
    for (const does of ['never', 'blocks'] as const) {
      const { completion, grading } = await executeScripted(backend, {
        does,
        agentTimeoutSeconds: 0.1,
      })
      assertFailure(completion.failure, lateWorkflow, 'timeout')
      assert.equal(grading?.failure?.message, completion.failure?.message)
    }
    for (const agentTimeoutSeconds of [0, -5]) {
      const { completion } = await executeScripted(backend, { does: 'throws', agentTimeoutSeconds })
      const message = `workflow exceeded its ${agentTimeoutSeconds}s deadline`
      assertFailure(completion.failure, message, 'timeout')
    }
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const asking = await executeScripted(backend, {
      does: 'asks',
      chatCompletionsUrl: server.url,
      agentTimeoutSeconds: 1,
    })
    assert.equal(asking.completion.failure?.category, 'timeout')
    const [call] = server.requests
    if (call) await call.closed
  },

  'ends-withdrawn': async (open) => {
    await using server = await startPolicyServer(() => fault.status(410))
    const { completion } = await executeScripted(await open('unlimited'), {
      does: 'asks-and-forgives',
      chatCompletionsUrl: server.url,
      wire: { ownRoute: true },
    })
    const withdrawn = /^The trainer withdrew the rollout: .* answered 410\.$/
    assertFailure(completion.failure, withdrawn, 'agent_error')
    const { code, status } = (completion.failure?.cause ?? {}) as Partial<OsmosisError>
    assert.deepEqual([code, status], ['withdrawn', 410])
    assert.equal(server.requests.length, 1)
  },

  'counts-queue': async (open) => {
    const backend = await open('narrow')
    const [, second] = await Promise.all([
      executeScripted(backend, { does: 'never', agentTimeoutSeconds: 1 }),
      executeScripted(backend, { does: 'never', agentTimeoutSeconds: 0.3 }),
    ])
    const queued = /^workflow exceeded its 0\.3s deadline \(\d+\.\ds of it spent queued\)$/
    assertFailure(second.completion.failure, queued, 'timeout')
    const elsewhere = await executeScripted(backend, {
      does: 'never',
      agentTimeoutSeconds: 70.1,
      queuedSeconds: 70,
    })
    const longAgo = /^workflow exceeded its 70\.1s deadline \(70\.\ds of it spent queued\)$/
    assertFailure(elsewhere.completion.failure, longAgo, 'timeout')
  },

  'ends-graders': async (open) => {
    const backend = await open('unlimited')
    for (const grades of ['never', 'blocks'] as const) {
      const { completion, grading } = await executeScripted(backend, {
        grades,
        graderTimeoutSeconds: 0.1,
      })
      assert.equal(completion.status, 'success')
      assertFailure(grading?.failure, 'grader exceeded its 0.1s deadline', 'timeout')
      assert.deepEqual([...(grading?.samples.keys() ?? [])], ['main'])
    }
  },

  'cancels-workflows': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('narrow')
    const policy = { chatCompletionsUrl: server.url }
    const running = executeScripted(backend, { does: 'asks', rolloutId: 'first', ...policy })
    const queued = executeScripted(backend, { does: 'asks', rolloutId: 'second', ...policy })
    const call = await server.waitForRequest(0)
    const dispositions = backend.cancel({ ids: ['first', 'second', 'third'] })
    assert.deepEqual(Object.fromEntries(dispositions), {
      first: 'cancelled_running',
      second: 'cancelled_queued',
      third: 'not_found',
    })
    for (const { completion, grading } of await Promise.all([running, queued])) {
      assertFailure(completion.failure, 'cancelled', 'agent_error')
      assertFailure(grading?.failure, 'cancelled', 'agent_error')
    }
    await call.closed
    assert.equal(server.requests.length, 1)
    assert.equal(backend.status('first').status, 'cancelled')
    assert.deepEqual(Object.fromEntries(backend.cancel({ ids: ['first'] })), {
      first: 'not_found',
    })
    const leased = executeScripted(backend, { does: 'asks', rolloutId: 'leased', ...policy })
    await server.waitForRequest(1)
    backend.cancel({ all: true }, new OsmosisError('lease_expired', 'polling lease expired'))
    const { failure } = (await leased).completion
    assertFailure(failure, 'polling lease expired', 'agent_error')
    assert.equal((failure?.cause as Partial<OsmosisError> | undefined)?.code, 'lease_expired')
  },

  'cancels-between': async (open) => {
    const backend = await open('unlimited')
    const { completion, grading } = await executeScripted(
      backend,
      { rolloutId: 'between', grades: 'never' },
      { workflowFinished: async () => void backend.cancel({ ids: ['between'] }) },
    )
    assert.equal(completion.status, 'success')
    assertFailure(grading?.failure, 'cancelled', 'agent_error')
    assert.equal(backend.status('between').status, 'cancelled')
  },

  'cancels-gradings': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('unlimited')
    const ended = executeScripted(backend, {
      rolloutId: 'graded',
      grades: 'waits-for-test',
      metadata: { gate: server.url },
    })
    await server.waitForRequest(0)
    assert.equal(backend.status('graded').status, 'grading')
    assert.deepEqual(Object.fromEntries(backend.cancel({ prefix: 'grad' })), {
      graded: 'cancelled_running',
    })
    const { completion, grading } = await ended
    assert.equal(completion.status, 'success')
    assertFailure(grading?.failure, 'cancelled', 'agent_error')
    assert.deepEqual([...(grading?.samples.keys() ?? [])], ['main'])
  },

  'selects-rollouts': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('unlimited')
    const ended = ['a-1', 'a-2', 'b-1'].map(async (rolloutId) =>
      executeScripted(backend, { does: 'asks', rolloutId, chatCompletionsUrl: server.url }),
    )
    await server.waitForRequest(2)
    assert.deepEqual(Object.fromEntries(backend.cancel({ prefix: 'a-' })), {
      'a-1': 'cancelled_running',
      'a-2': 'cancelled_running',
    })
    await Promise.all(ended.slice(0, 2))
    assert.deepEqual(Object.fromEntries(backend.cancel({ all: true })), {
      'b-1': 'cancelled_running',
    })
    await Promise.all(ended)
    assert.equal(backend.cancel({ all: true }).size, 0)
  },

  'shuts-down': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('narrow', { fresh: true })
    const policy = { chatCompletionsUrl: server.url }
    const ended = [1, 2].map(async () => executeScripted(backend, { does: 'asks', ...policy }))
    await server.waitForRequest(0)
    backend.shutdown()
    for (const { completion, grading } of await Promise.all(ended)) {
      assertFailure(completion.failure, 'rollout server shut down', 'agent_error')
      assertFailure(grading?.failure, 'rollout server shut down', 'agent_error')
    }
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
