import { OsmosisError } from '@osmosis/core'
import { fault, startPolicyServer } from '@osmosis/testing'

import type { BackendCase, BackendRule } from './backend-rules.ts'
import { expectEqual, expectRequests, eventually } from './expectations.ts'
import { expectFailure, executeScripted } from './scripted-rollout.ts'

const lateWorkflow = /^workflow exceeded its 0\.1s deadline( \(\d+\.\ds of it spent queued\))?$/

/** What ends rollouts before their code does. */
export const endingCases = {
  'ends-workflows': async (open) => {
    const backend = await open('unlimited')
    for (const workflow of ['never', 'blocks'] as const) {
      const { completion, grading } = await executeScripted(backend, {
        workflow,
        agentTimeoutSeconds: 0.1,
      })
      expectFailure('the workflow', completion.failure, lateWorkflow, 'timeout')
      expectEqual('the grading', grading, undefined)
    }
    for (const agentTimeoutSeconds of [0, -5]) {
      const { completion } = await executeScripted(backend, {
        workflow: 'throws',
        agentTimeoutSeconds,
      })
      const message = `workflow exceeded its ${agentTimeoutSeconds}s deadline`
      expectFailure('the workflow', completion.failure, message, 'timeout')
    }
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const calling = await executeScripted(backend, {
      workflow: 'calls',
      chatCompletionsUrl: server.url,
      agentTimeoutSeconds: 1,
    })
    expectEqual('the failure category', calling.completion.failure?.category, 'timeout')
    const [call] = server.requests
    if (call) await eventually('the model call to be closed', call.closed)
  },

  'ends-withdrawn': async (open) => {
    await using server = await startPolicyServer(() => fault.status(410))
    const { completion } = await executeScripted(await open('unlimited'), {
      workflow: 'ignores-failed-call',
      chatCompletionsUrl: server.url,
      wire: { ownRoute: true },
    })
    const withdrawn = /^The trainer withdrew the rollout: .* answered 410\b/
    expectFailure('the workflow', completion.failure, withdrawn, 'agent_error')
    const { code, status } = (completion.failure?.cause ?? {}) as Partial<OsmosisError>
    expectEqual('code and status of the cause', [code, status], ['withdrawn', 410])
    expectRequests(server, 1)
  },

  'counts-queue': async (open) => {
    const backend = await open('narrow')
    const [, second] = await Promise.all([
      executeScripted(backend, { workflow: 'never', agentTimeoutSeconds: 1 }),
      executeScripted(backend, { workflow: 'never', agentTimeoutSeconds: 0.3 }),
    ])
    const queued = /^workflow exceeded its 0\.3s deadline \(\d+\.\ds of it spent queued\)$/
    expectFailure('the workflow', second.completion.failure, queued, 'timeout')
    const elsewhere = await executeScripted(backend, {
      workflow: 'never',
      agentTimeoutSeconds: 70.1,
      queuedSeconds: 70,
    })
    const longAgo = /^workflow exceeded its 70\.1s deadline \(70\.\ds of it spent queued\)$/
    expectFailure('the workflow', elsewhere.completion.failure, longAgo, 'timeout')
  },

  'ends-graders': async (open) => {
    const backend = await open('unlimited')
    for (const grader of ['never', 'blocks'] as const) {
      const { completion, grading } = await executeScripted(backend, {
        grader,
        graderTimeoutSeconds: 0.1,
      })
      expectEqual('the status of the workflow', completion.status, 'success')
      expectFailure('the grading', grading?.failure, 'grader exceeded its 0.1s deadline', 'timeout')
      expectEqual('the graded samples', [...(grading?.samples.keys() ?? [])], ['main'])
    }
  },

  'cancels-workflows': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('narrow')
    const policy = { chatCompletionsUrl: server.url }
    const running = executeScripted(backend, { workflow: 'calls', rolloutId: 'first', ...policy })
    const queued = executeScripted(backend, { workflow: 'calls', rolloutId: 'second', ...policy })
    const call = await eventually('a model call', server.waitForRequest(0), running)
    const dispositions = backend.cancel({ ids: ['first', 'second', 'third'] })
    expectEqual('the cancelled rollouts', Object.fromEntries(dispositions), {
      first: 'cancelled_running',
      second: 'cancelled_queued',
      third: 'not_found',
    })
    const again = [backend.cancel({ all: true }), backend.cancel({ prefix: 'fi' })]
    expectEqual('the rollouts that were cancelled again', again, [new Map(), new Map()])
    for (const { completion, grading } of await Promise.all([running, queued])) {
      expectFailure('the workflow', completion.failure, 'cancelled', 'agent_error')
      expectEqual('the grading', grading, undefined)
    }
    await eventually('the model call to be closed', call.closed)
    expectRequests(server, 1)
    expectEqual('the state of "first"', backend.status('first').status, 'cancelled')
    expectEqual('the cancelled rollouts', Object.fromEntries(backend.cancel({ ids: ['first'] })), {
      first: 'not_found',
    })
    const leased = executeScripted(backend, { workflow: 'calls', rolloutId: 'leased', ...policy })
    await eventually('a model call of "leased"', server.waitForRequest(1), leased)
    backend.cancel({ all: true }, new OsmosisError('lease_expired', 'polling lease expired'))
    const { failure } = (await leased).completion
    expectFailure('the workflow', failure, 'polling lease expired', 'agent_error')
    const { code } = (failure?.cause ?? {}) as Partial<OsmosisError>
    expectEqual('the code of the cause', code, 'lease_expired')
  },

  'cancels-between': async (open) => {
    const backend = await open('unlimited')
    const { completion, grading } = await executeScripted(
      backend,
      { rolloutId: 'between', grader: 'never' },
      {},
      ({ type }) => void (type === 'workflow' && backend.cancel({ ids: ['between'] })),
    )
    expectEqual('the status of the workflow', completion.status, 'success')
    expectFailure('the grading', grading?.failure, 'cancelled', 'agent_error')
    expectEqual('the state of "between"', backend.status('between').status, 'cancelled')
  },

  'cancels-gradings': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('unlimited')
    const ended = executeScripted(backend, {
      rolloutId: 'graded',
      grader: 'waits-for-test',
      metadata: { gate: server.url },
    })
    await eventually('the request of the grader', server.waitForRequest(0), ended)
    expectEqual('the state of "graded"', backend.status('graded').status, 'grading')
    expectEqual('the cancelled rollouts', Object.fromEntries(backend.cancel({ prefix: 'grad' })), {
      graded: 'cancelled_running',
    })
    const { completion, grading } = await ended
    expectEqual('the status of the workflow', completion.status, 'success')
    expectFailure('the grading', grading?.failure, 'cancelled', 'agent_error')
    expectEqual('the graded samples', [...(grading?.samples.keys() ?? [])], ['main'])
  },

  'selects-rollouts': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('unlimited')
    const ended = ['a-1', 'a-2', 'b-1'].map(async (rolloutId) =>
      executeScripted(backend, { workflow: 'calls', rolloutId, chatCompletionsUrl: server.url }),
    )
    await eventually('three model calls', server.waitForRequest(2), Promise.all(ended))
    expectEqual('the cancelled rollouts', Object.fromEntries(backend.cancel({ prefix: 'a-' })), {
      'a-1': 'cancelled_running',
      'a-2': 'cancelled_running',
    })
    await Promise.all(ended.slice(0, 2))
    expectEqual('the cancelled rollouts', Object.fromEntries(backend.cancel({ all: true })), {
      'b-1': 'cancelled_running',
    })
    await Promise.all(ended)
    expectEqual('the number of cancelled rollouts', backend.cancel({ all: true }).size, 0)
  },

  'shuts-down': async (open) => {
    await using server = await startPolicyServer(() => new Promise(() => {}))
    const backend = await open('narrow', { fresh: true })
    const policy = { chatCompletionsUrl: server.url }
    const ended = [1, 2].map(async () => executeScripted(backend, { workflow: 'calls', ...policy }))
    await eventually('a model call', server.waitForRequest(0), Promise.race(ended))
    backend.shutdown()
    for (const { completion, grading } of await Promise.all(ended)) {
      expectFailure('the workflow', completion.failure, 'rollout server shut down', 'agent_error')
      expectEqual('the grading', grading, undefined)
    }
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
