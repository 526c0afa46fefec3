import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'

import type { BackendCase, BackendRule } from './backend-rules.ts'
import { expectEqual, expectMatch, expectRequests, expectThat } from './expectations.ts'
import { expectFailure, executeScripted, type ScriptedRequest } from './scripted-rollout.ts'

/** How rollouts end. */
export const outcomeCases = {
  'reports-phases': async (open) => {
    const reported = await executeScripted(await open('unlimited'), { workflow: 'two-samples' })
    expectEqual('the reports', reported.events, ['started', 'workflow success', 'graded success'])
    expectEqual('the reported samples', [...reported.samples.keys()], ['a', 'b'])
    expectEqual('the rewards', rewardsOf(reported.grading?.samples), { a: 1, b: 1 })
    expectEqual('the failure of the workflow', reported.completion.failure, null)
    expectEqual('the failure of the grading', reported.grading?.failure, null)
  },

  'skips-phases': async (open) => {
    const backend = await open('unlimited')
    const ungraded = await executeScripted(backend, { grade: false })
    expectEqual('the reports without grading', ungraded.events, ['started', 'workflow success'])
    expectEqual('the reported samples', [...ungraded.samples.keys()], ['main'])
    const failed = await executeScripted(backend, { workflow: 'throws' })
    expectEqual('the reports of a failed workflow', failed.events, ['started', 'workflow failure'])
    const late = await executeScripted(backend, { agentTimeoutSeconds: 0 })
    expectEqual('the reports after the deadline', late.events, ['workflow failure'])
  },

  'waits-before-first-call': async (open) => {
    const backend = await open('unlimited')
    await using server = await startPolicyServer(() => 'yes')
    const calls = { workflow: 'calls-twice', chatCompletionsUrl: server.url } as const
    const sampleIds = (): unknown[] => server.requests.map(({ headers }) => headers['x-sample-id'])
    const waiting = await executeScripted(backend, calls, {
      beforeFirstModelCall: async () => {
        // A model call that does not wait would arrive before the last of these.
        for (let n = 0; n < 3; n += 1) await callPolicyAs('observer', server.url)
      },
    })
    expectEqual('the failure of the workflow', waiting.completion.failure, null)
    expectEqual('x-sample-id of each request', sampleIds(), [
      'observer',
      'observer',
      'observer',
      'main',
      'main',
    ])
    const refused = await executeScripted(backend, calls, {
      beforeFirstModelCall: async () => {
        throw new OsmosisError('invalid_request', 'the mark cannot be written')
      },
    })
    expectFailure(
      'the workflow',
      refused.completion.failure,
      'thrown by run(): the mark cannot be written',
      'validation_error',
    )
    expectRequests(server, 5)
    let wasCalled = false
    const hooks = { beforeFirstModelCall: async () => void (wasCalled = true) }
    await executeScripted(backend, { workflow: 'one-sample' }, hooks)
    expectEqual('beforeFirstModelCall without a model call', wasCalled, false)
  },

  'fails-workflows': async (open) => {
    const backend = await open('unlimited')
    const failures: [ScriptedRequest['workflow'], string | RegExp, string][] = [
      ['throws', 'thrown by run(): boom', 'agent_error'],
      ['throws-without-message', 'thrown by run(): RangeError', 'validation_error'],
      ['throws-text', 'thrown by run(): just a text', 'agent_error'],
      ['throws-own-timeout', 'thrown by run(): the tool took too long', 'timeout'],
      ['throws-status', 'the judge failed', 'http_error'],
      ['throws-uncloneable', 'thrown by run(): holds a socket', 'agent_error'],
      ['throws-cycle', 'thrown by run(): [object Object]', 'agent_error'],
      ['throws-cyclic-cause', 'the judge answered 503', 'http_error'],
      ['repeats-name', /"main" is already registered/, 'validation_error'],
      ['source-throws', 'thrown by a sample source: no messages', 'agent_error'],
    ]
    for (const [workflow, message, category] of failures) {
      const { completion, grading } = await executeScripted(backend, { workflow })
      expectFailure('the workflow', completion.failure, message, category)
      expectEqual('the warnings', completion.warnings, [])
      expectEqual('the grading', grading, undefined)
    }
    const thrown = (await executeScripted(backend, { workflow: 'throws-status' })).completion
      .failure
    const wrapper = thrown?.cause
    expectThat(wrapper instanceof Error, 'the thrown error as cause of the failure', wrapper)
    expectEqual('the message of the cause', wrapper.message, 'the judge failed')
    expectMatch('the stack of the cause', wrapper.stack, /contract-scripts/)
    const { cause } = wrapper
    const { code, status } = isOsmosisError(cause) ? cause : {}
    expectEqual('code and status of its cause', [code, status], ['policy_http_error', 503])
    const text = (await executeScripted(backend, { workflow: 'throws-text' })).completion.failure
    expectEqual('the cause of the failure', text?.cause, 'just a text')
  },

  'fails-gradings': async (open) => {
    const backend = await open('unlimited')
    const failures: [ScriptedRequest['grader'], string | RegExp, string][] = [
      ['throws', 'thrown by grade(): gboom', 'agent_error'],
      ['nothing', /The grader set no reward/, 'validation_error'],
      ['not-a-number', /must be a finite number, got NaN/, 'validation_error'],
      ['unknown', /no sample "nope".*main/, 'validation_error'],
    ]
    for (const [grader, message, category] of failures) {
      const { completion, grading } = await executeScripted(backend, { grader })
      expectEqual('the status of the workflow', completion.status, 'success')
      expectFailure('the grading', grading?.failure, message, category)
      expectEqual('the rewards', rewardsOf(grading?.samples), { main: null })
    }
  },

  'names-missing-parts': async (open) => {
    const expectMissing = async (
      entrypoint: Parameters<typeof open>[0],
      request: ScriptedRequest,
      message: RegExp,
      samples = 0,
    ): Promise<void> => {
      const { completion, grading } = await executeScripted(await open(entrypoint), request)
      expectEqual('the status of the workflow', completion.status, 'success')
      expectFailure('the grading', grading?.failure, message, 'validation_error')
      expectEqual('the number of graded samples', grading?.samples.size, samples)
    }
    await expectMissing('unlimited', { workflow: 'no-sample' }, /^No model call reached the policy/)
    await expectMissing('unlimited', { workflow: 'never-calls' }, /"agent".*`await`/)
    await expectMissing('unlimited', { label: null }, /neither a label nor metadata/)
    // The samples remain, because the controller may score them.
    await expectMissing('ungraded', {}, /There is no grader/, 1)
  },

  warns: async (open) => {
    const backend = await open('unlimited')
    const { completion } = await executeScripted(backend)
    expectEqual('the number of warnings', completion.warnings.length, 1)
    expectMatch('the warning', completion.warnings[0], /^No model call reached the policy/)
    const empty = await executeScripted(backend, { workflow: 'no-sample' })
    expectMatch('the warning', empty.completion.warnings[0], /No model call reached the policy/)
  },
} satisfies Partial<Record<BackendRule, BackendCase>>

function rewardsOf(
  samples: ReadonlyMap<string, { readonly reward: number | null }> | undefined,
): Record<string, number | null> {
  return Object.fromEntries([...(samples ?? [])].map(([id, { reward }]) => [id, reward]))
}

async function callPolicyAs(sampleId: string, url: string): Promise<void> {
  const answer = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-sample-id': sampleId },
    body: JSON.stringify({ messages: [] }),
  })
  await answer.text()
}
