import assert from 'node:assert/strict'

import { toTelemetryJson } from '@osmosis/runtime/http'

import { fault } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import { executeScripted, type BackendCase } from './backend-case.ts'
import type { BackendRule } from './backend-rules.ts'
import { richSample } from './contract-scripts.ts'

/** What comes out of rollouts. */
export const sampleCases = {
  'keeps-samples': async (open) => {
    const backend = await open('unlimited')
    const rich = await executeScripted(backend, { does: 'rich-sample' })
    const expected = {
      id: 'main',
      ...richSample,
      trajectoryMessages: null,
      calls: [],
      stepRewards: null,
      removeSample: false,
    }
    assert.deepEqual(rich.samples?.get('main')?.messages, richSample.messages)
    assert.deepEqual(rich.grading?.samples.get('main'), { ...expected, reward: 1 })
    const noted = await executeScripted(backend, { rolloutId: 'noted', grades: 'notes' })
    assert.deepEqual(noted.grading?.samples.get('main'), {
      id: 'main',
      messages: [{ role: 'assistant', content: 'answer of main' }],
      trajectoryMessages: null,
      calls: [],
      reward: 0.25,
      stepRewards: null,
      label: 'noted',
      removeSample: false,
      metrics: { seen: 1 },
      extraFields: { by: 'noted' },
    })
  },

  'survives-uncloneable': async (open) => {
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      does: 'uncloneable-sample',
    })
    assert.equal(completion.failure, null)
    const sample = grading?.samples.get('main')
    assert.equal(sample?.reward, 1)
    // What is sent of it is the same, wherever it came from.
    assert.equal(
      JSON.stringify(sample.messages),
      '[{"role":"assistant","content":"hi"},{"role":"user","content":"x","cost":"5 ct"}]',
    )
    const dropped = new Set<string>()
    assert.deepEqual(toTelemetryJson(sample.metrics, dropped), { fine: 1 })
    assert.deepEqual(toTelemetryJson(sample.extraFields, dropped), {
      cost: '7 ct',
      proxy: { a: 1 },
      list: [null, 2],
      pending: {},
    })
  },

  'keeps-calls': async (open) => {
    await using server = await startPolicyServer(['a1'])
    const { grading } = await executeScripted(await open('unlimited'), {
      does: 'nests-too-deeply',
      chatCompletionsUrl: server.url,
    })
    const [call] = grading?.samples.get('main')?.calls ?? []
    assert.deepEqual([call?.error, call?.finishReason], [null, 'stop'])
  },

  'keeps-removed': async (open) => {
    const backend = await open('unlimited')
    const { grading } = await executeScripted(backend, {
      does: 'two-samples',
      grades: 'removes-first',
    })
    assert.equal(grading?.status, 'success')
    const kept = [...grading.samples.values()].map(({ id, reward, removeSample }) => [
      id,
      reward,
      removeSample,
    ])
    assert.deepEqual(kept, [
      ['a', null, true],
      ['b', 0.5, false],
    ])
  },

  'keeps-conversations': async (open) => {
    await using server = await startPolicyServer(['a1', 'a2'])
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      does: 'asks-twice',
      rolloutId: 'conversation',
      chatCompletionsUrl: server.url,
      apiKey: 'the-key',
    })
    assert.deepEqual(completion.warnings, [])
    const sample = grading?.samples.get('main')
    assert.deepEqual(sample?.trajectoryMessages, [
      { role: 'user', content: 'q2' },
      { role: 'assistant', content: 'a2' },
    ])
    assert.deepEqual(
      sample.calls.map(({ attempts, error, finishReason }) => ({ attempts, error, finishReason })),
      Array.from({ length: 2 }, () => ({ attempts: 1, error: null, finishReason: 'stop' })),
    )
    for (const { headers } of server.requests) {
      assert.equal(headers['x-rollout-id'], 'conversation')
      assert.equal(headers['authorization'], 'Bearer the-key')
    }
  },

  'keeps-steps': async (open) => {
    await using server = await startPolicyServer(() => 'answer')
    const backend = await open('unlimited')
    const { grading } = await executeScripted(backend, {
      does: 'asks-twice',
      grades: 'rewards-steps',
      chatCompletionsUrl: server.url,
    })
    const sample = grading?.samples.get('main')
    assert.deepEqual([sample?.reward, sample?.stepRewards], [1, [0.5, null]])
    for (const does of ['asks', 'asks-thrice'] as const) {
      const { grading: wrong } = await executeScripted(backend, {
        does,
        grades: 'rewards-steps',
        chatCompletionsUrl: server.url,
      })
      assert.equal(wrong?.failure?.category, 'validation_error')
      assert.match(wrong.failure.message, /has [13] answered model calls, got 2 step rewards/)
    }
    const unasked = await executeScripted(backend, { grades: 'rewards-steps' })
    assert.equal(unasked.grading?.samples.get('main')?.stepRewards, null)
  },

  'asks-as-wired': async (open) => {
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
      does: 'asks',
      chatCompletionsUrl: server.url,
      wire: { stream: false, model: 'weights', body: { temperature: 0.5, logprobs: true } },
    })
    const { messages: _, ...asked } = server.requests[0]?.body ?? {}
    assert.deepEqual(asked, { model: 'weights', stream: false, temperature: 0.5, logprobs: true })
    const [call] = grading?.samples.get('main')?.calls ?? []
    assert.deepEqual(
      [call?.id, call?.promptTokenIds, call?.completionTokenIds, call?.logprobs],
      ['answer-1', [1, 2], [7, 8], logprobs],
    )
  },

  'knows-groups': async (open) => {
    const backend = await open('unlimited')
    const group = { id: 'row-7', attempt: 2, size: 4 }
    const asked = { does: 'notes-group', grades: 'notes-group' } as const
    const { grading } = await executeScripted(backend, { ...asked, group })
    assert.deepEqual(grading?.samples.get('main')?.messages, [{ role: 'user', content: group }])
    assert.deepEqual(grading.samples.get('main')?.metrics, { group })
    const alone = await executeScripted(backend, asked)
    assert.deepEqual(alone.grading?.samples.get('main')?.messages, [
      { role: 'user', content: null },
    ])
    assert.deepEqual(alone.grading.samples.get('main')?.metrics, { group: null })
  },

  'keeps-partial': async (open) => {
    await using server = await startPolicyServer(['a1'])
    const { completion, grading } = await executeScripted(await open('unlimited'), {
      does: 'asks-and-throws',
      chatCompletionsUrl: server.url,
    })
    assert.equal(completion.failure?.message, 'thrown by run(): after the answer')
    assert.equal(grading?.samples.size, 0)
    const said = await completion.partialSamples
    assert.deepEqual(said?.get('main')?.trajectoryMessages, [
      { role: 'user', content: 'q1' },
      { role: 'assistant', content: 'a1' },
    ])
    assert.equal(said?.get('main')?.calls.length, 1)
  },
} satisfies Partial<Record<BackendRule, BackendCase>>
