import { toTelemetryJson } from '@osmosis/protocol/http'
import { fault, startPolicyServer } from '@osmosis/testing'

import type { BackendCase, BackendRule } from './backend-rules.ts'
import { richSample } from './contract-scripts.ts'
import { expectEqual, expectThat } from './expectations.ts'
import {
  expectFailure,
  executeScripted,
  type ScriptedRequest,
  withoutPlace,
} from './scripted-rollout.ts'

/** The samples of rollouts. */
export const sampleCases = {
  'keeps-samples': async (open) => {
    const backend = await open('unlimited')
    const rich = await executeScripted(backend, { workflow: 'rich-sample' })
    const expected = {
      id: 'main',
      ...richSample,
      trajectoryMessages: null,
      calls: [],
      stepRewards: null,
      removeSample: false,
    }
    const reported = rich.samples.get('main')?.messages
    expectEqual('the reported messages', reported, richSample.messages)
    const graded = rich.grading?.samples.get('main')
    expectEqual('the graded sample', graded, { ...expected, reward: 1 })
    const recorded = await executeScripted(backend, {
      rolloutId: 'recorded',
      grader: 'records-input',
    })
    expectEqual('the changed sample', recorded.grading?.samples.get('main'), {
      id: 'main',
      messages: [{ role: 'assistant', content: 'answer of main' }],
      trajectoryMessages: null,
      calls: [],
      reward: 0.25,
      stepRewards: null,
      label: 'recorded',
      removeSample: false,
      metrics: { seen: 1 },
      extraFields: { by: 'recorded' },
    })
  },

  'keeps-output': async (open) => {
    const backend = await open('unlimited')
    const object = await executeScripted(backend, {
      workflow: 'returns-object',
      grader: 'records-output',
    })
    const returned = { items: ['Zoë 😀', 2.5, null], open: false }
    const [first, second] = object.grading?.samples.values() ?? []
    expectEqual('what the grader read', first?.label, JSON.stringify(returned))
    expectEqual('the fields of the first sample', first?.extraFields, { run_output: returned })
    expectEqual('the fields of the second sample', second?.extraFields, {})

    const missing: [ScriptedRequest['workflow'], RegExp][] = [
      ['one-sample', /no ctx\.output, because run\(\) returned nothing\./],
      [
        'returns-instance',
        /because run\(\) returned data in which \.when is an instance of Date\./,
      ],
    ]
    for (const [workflow, message] of missing) {
      const failed = await executeScripted(backend, { workflow, grader: 'records-output' })
      expectFailure('the grading', failed.grading?.failure, message, 'agent_error')
    }
  },

  'survives-uncloneable': async (open) => {
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      workflow: 'uncloneable-sample',
    })
    expectEqual('the failure of the workflow', completion.failure, null)
    const sample = grading?.samples.get('main')
    expectThat(sample?.reward === 1, 'the sample "main" with the reward 1', sample?.reward)
    // Both forms of the sample, cloned or not, have the same JSON.
    expectEqual(
      'the JSON of the messages',
      JSON.stringify(sample.messages),
      '[{"role":"assistant","content":"hi"},{"role":"user","content":"x","cost":"5 ct"}]',
    )
    const dropped = new Set<string>()
    expectEqual('the JSON of the metrics', toTelemetryJson(sample.metrics, dropped), { fine: 1 })
    expectEqual('the JSON of extraFields', toTelemetryJson(sample.extraFields, dropped), {
      cost: '7 ct',
      proxy: { a: 1 },
      list: [null, 2],
      pending: {},
      cycle: { message: 'in a sample', list: [null] },
    })
  },

  'keeps-calls': async (open) => {
    await using server = await startPolicyServer(['a1'])
    const { grading } = await executeScripted(await open('unlimited'), {
      workflow: 'nests-too-deeply',
      chatCompletionsUrl: server.url,
    })
    const [call] = grading?.samples.get('main')?.calls ?? []
    expectEqual(
      'error and finishReason of the call',
      [call?.error, call?.finishReason],
      [null, 'stop'],
    )
  },

  'keeps-removed': async (open) => {
    const backend = await open('unlimited')
    const { grading } = await executeScripted(backend, {
      workflow: 'two-samples',
      grader: 'removes-first',
    })
    expectEqual('the status of the grading', grading?.status, 'success')
    const graded = [...(grading?.samples.values() ?? [])].map(({ id, reward, removeSample }) => [
      id,
      reward,
      removeSample,
    ])
    expectEqual('id, reward and removeSample of each sample', graded, [
      ['a', null, true],
      ['b', 0.5, false],
    ])
  },

  'keeps-conversations': async (open) => {
    await using server = await startPolicyServer(['a1', 'a2'])
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      workflow: 'calls-twice',
      rolloutId: 'conversation',
      chatCompletionsUrl: server.url,
      apiKey: 'the-key',
    })
    expectEqual('the warnings', completion.warnings, [])
    const sample = grading?.samples.get('main')
    expectEqual('trajectoryMessages', sample?.trajectoryMessages, [
      { role: 'user', content: 'q2' },
      { role: 'assistant', content: 'a2' },
    ])
    const calls = sample?.calls.map(({ attempts, error, finishReason }) => [
      attempts,
      error,
      finishReason,
    ])
    expectEqual('attempts, error and finishReason of each call', calls, [
      [1, null, 'stop'],
      [1, null, 'stop'],
    ])
    for (const { headers } of server.requests) {
      expectEqual('x-rollout-id', headers['x-rollout-id'], 'conversation')
      expectEqual('authorization', headers['authorization'], 'Bearer the-key')
    }
  },

  'keeps-steps': async (open) => {
    await using server = await startPolicyServer(() => 'answer')
    const backend = await open('unlimited')
    const { grading } = await executeScripted(backend, {
      workflow: 'calls-twice',
      grader: 'rewards-steps',
      chatCompletionsUrl: server.url,
    })
    const sample = grading?.samples.get('main')
    expectEqual('the reward', sample?.reward, 1)
    expectEqual('the step rewards', sample?.stepRewards, [0.5, null])
    for (const workflow of ['calls', 'calls-three-times'] as const) {
      const { grading: wrong } = await executeScripted(backend, {
        workflow,
        grader: 'rewards-steps',
        chatCompletionsUrl: server.url,
      })
      const message = /has [13] answered model calls, got 2 step rewards/
      expectFailure('the grading', wrong?.failure, message, 'validation_error')
    }
    const uncalled = await executeScripted(backend, { grader: 'rewards-steps' })
    const { stepRewards } = uncalled.grading?.samples.get('main') ?? {}
    expectEqual('the step rewards without a model call', stepRewards, null)
  },

  'follows-wire-settings': async (open) => {
    const logprobs = { content: [{ token: 'a1', logprob: -0.25 }] }
    const message = { role: 'assistant', content: 'a1' }
    const choice = { index: 0, message, finish_reason: 'stop', logprobs, token_ids: [7, 8] }
    const completion = { id: 'answer-1', model: 'm', choices: [choice], prompt_token_ids: [1, 2] }
    await using server = await startPolicyServer(({ body }) =>
      body['stream'] === true
        ? fault.status(400)
        : fault.status(200, { body: { ...completion, created: 1, object: 'chat.completion' } }),
    )
    const { grading } = await executeScripted(await open('unlimited'), {
      workflow: 'calls',
      chatCompletionsUrl: server.url,
      wire: { stream: false, model: 'weights', body: { temperature: 0.5, logprobs: true } },
    })
    const { messages: _, ...settings } = server.requests[0]?.body ?? {}
    expectEqual('the request without its messages', settings, {
      model: 'weights',
      stream: false,
      temperature: 0.5,
      logprobs: true,
    })
    const [call] = grading?.samples.get('main')?.calls ?? []
    expectEqual(
      'id, token ids and logprobs of the call',
      [call?.id, call?.promptTokenIds, call?.completionTokenIds, call?.logprobs],
      ['answer-1', [1, 2], [7, 8], logprobs],
    )
  },

  'knows-groups': async (open) => {
    const backend = await open('unlimited')
    const group = { id: 'row-7', attempt: 2, size: 4 }
    const scripts = { workflow: 'records-group', grader: 'records-group' } as const
    const { grading } = await executeScripted(backend, { ...scripts, group })
    const sample = grading?.samples.get('main')
    expectEqual('the messages', sample?.messages, [{ role: 'user', content: group }])
    expectEqual('the metrics', sample?.metrics, { group })
    const alone = await executeScripted(backend, scripts)
    const single = alone.grading?.samples.get('main')
    expectEqual('the messages without a group', single?.messages, [{ role: 'user', content: null }])
    expectEqual('the metrics without a group', single?.metrics, { group: null })
  },

  'keeps-partial': async (open) => {
    await using server = await startPolicyServer(['a1'])
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      workflow: 'calls-and-throws',
      chatCompletionsUrl: server.url,
    })
    const message = withoutPlace(completion.failure?.message)
    expectEqual('the failure of the workflow', message, 'thrown by run(): after the answer')
    expectEqual('the grading', grading, undefined)
    const partial = (await completion.partialSamples)?.get('main')
    expectEqual('trajectoryMessages of the partial sample', partial?.trajectoryMessages, [
      { role: 'user', content: 'q1' },
      { role: 'assistant', content: 'a1' },
    ])
    expectEqual('the number of its calls', partial?.calls.length, 1)
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
