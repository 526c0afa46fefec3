import { RolloutContext, type PolicyCall, type PolicyWire } from '@osmosis/core'
import type { ChatCompletionRequest } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

/** What a policy says about itself in an answer. */
interface Said {
  readonly model?: unknown
  readonly metadata?: unknown
}

/** Calls a policy once with each of these requests, and returns what was recorded of the calls and what was sent. */
async function recorded(
  requests: readonly Omit<ChatCompletionRequest, 'messages'>[],
  { wire, said = {}, status = 200 }: { wire?: PolicyWire; said?: Said; status?: number } = {},
): Promise<{ calls: readonly PolicyCall[]; sent: readonly Readonly<Record<string, unknown>>[] }> {
  const first = { ...chunk({ role: 'assistant', content: 'yes' }), model: undefined, ...said }
  const policy = await startPolicyEndpoint((response, _, { body }) => {
    if (status !== 200) sendJson(response, status, {})
    else if (body['stream'] === true) {
      sendStream(response, eventStream(first, { ...chunk({}, 'stop'), model: undefined, ...said }))
    } else {
      const choice = { index: 0, message: { role: 'assistant', content: 'yes' } }
      const choices = [{ ...choice, finish_reason: 'stop' }]
      sendJson(response, 200, { id: 'x', object: 'chat.completion', created: 1, ...said, choices })
    }
  })
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url, wire })
  const client = context.registerPolicySample('main')
  for (const request of requests) {
    await client.complete({ ...request, messages }, { retries: 0 }).catch(() => {})
  }
  const sample = (await context.getSamples()).get('main')
  return { calls: sample?.calls ?? [], sent: policy.requests.map(({ body }) => body) }
}

/** The settings of chat completions, vLLM and SGLang that decide how tokens are drawn. */
const settings: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  temperature: fc.constantFrom(0, 0.7, 1),
  top_p: fc.constantFrom(0.5, 1),
  top_k: fc.constantFrom(-1, 20),
  min_p: fc.constantFrom(0, 0.1),
  seed: fc.nat(100),
  max_tokens: fc.integer({ min: 1, max: 100 }),
  max_completion_tokens: fc.integer({ min: 1, max: 100 }),
  min_tokens: fc.nat(5),
  stop: fc.constantFrom(['x'], 'x'),
  stop_token_ids: fc.constant([2]),
  frequency_penalty: fc.constantFrom(0, 0.5),
  presence_penalty: fc.constantFrom(0, 0.5),
  repetition_penalty: fc.constantFrom(1, 1.1),
  logit_bias: fc.constant({ 5: -100 }),
  reasoning_effort: fc.constantFrom('low', 'high'),
  enable_thinking: fc.boolean(),
  thinking_token_budget: fc.nat(100),
  chat_template_kwargs: fc.constant({ enable_thinking: false }),
}

/** Settings that decide what is said, or in which form it comes. */
const others: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  tools: fc.constant([{ type: 'function', function: { name: 'f', parameters: {} } }]),
  tool_choice: fc.constant('auto'),
  logprobs: fc.constant(true),
  user: fc.constant('u'),
  response_format: fc.constant({ type: 'text' }),
}

const requests = fc.record({ ...settings, ...others }, { requiredKeys: [] })
const bodies = fc.record(settings, { requiredKeys: [] })

describe('a recorded call', () => {
  it('has the settings that its answer was sampled with, as they were sent', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(requests, { minLength: 1, maxLength: 3 }),
        bodies,
        async (all, body) => {
          const { calls, sent } = await recorded(all, { wire: { body } })
          const limits = ['max_tokens', 'max_completion_tokens']
          const ownsLimit = limits.some((name) => name in body)
          const expected = all.map((request) => {
            const own = Object.entries(request).filter(
              ([name]) => name in settings && !(ownsLimit && limits.includes(name)),
            )
            return { ...Object.fromEntries(own), ...body }
          })
          expect(calls.map(({ sampling }) => sampling)).toEqual(expected)
          for (const [at, { sampling }] of calls.entries()) expect(sent[at]).toMatchObject(sampling)
        },
      ),
      { numRuns: 25 },
    )
  })

  it.each(Object.keys(settings))('leaves out %s where it is null', async (name) => {
    const { calls } = await recorded([{ [name]: null }, { [name]: undefined }])
    expect(calls.map(({ sampling }) => sampling)).toEqual([{}, {}])
  })

  it.each<[why: string, said: Said, model: string | undefined, version: string | null]>([
    ['the model that answered', { model: 'policy-7' }, undefined, 'policy-7'],
    [
      'the model that answered, not that of the request',
      { model: 'policy-7' },
      'policy-6',
      'policy-7',
    ],
    ['the weights of SGLang', { model: 'qwen', metadata: { weight_version: '12' } }, 'qwen', '12'],
    [
      'the model where SGLang has no other weights',
      { model: 'policy-7', metadata: { weight_version: 'default' } },
      undefined,
      'policy-7',
    ],
    [
      'the model where the weights are no text',
      { model: 'policy-7', metadata: { weight_version: 12 } },
      undefined,
      'policy-7',
    ],
    ['the model behind a prefix', { model: 'Qwen3-8B/policy-7' }, undefined, 'Qwen3-8B/policy-7'],
    ['the model of the request where the answer names none', {}, 'policy-6', 'policy-6'],
    [
      'the model of the request where the answer has the name of all rollouts',
      { model: 'osmosis-rollout' },
      'policy-6',
      'policy-6',
    ],
    ['unknown where nobody names one', {}, undefined, null],
    [
      'unknown where only the name of all rollouts is given',
      { model: 'osmosis-rollout' },
      undefined,
      null,
    ],
    [
      'unknown where SGLang has no other weights',
      { model: 'qwen', metadata: { weight_version: 'default' } },
      'qwen',
      null,
    ],
    [
      'that of the request where the answer has a name without a version',
      { model: 'qwen' },
      'policy-6',
      'policy-6',
    ],
  ])('has as its version %s', async (_, said, model, version) => {
    for (const stream of [true, false]) {
      const { calls } = await recorded([{}, {}], { said, wire: { stream, model } })
      expect(calls.map((call) => call.version)).toEqual([version, version])
    }
  })

  // Names under which vLLM, llama.cpp, SGLang and gateways serve whatever weights they have.
  it.each([
    'policy',
    'default',
    'gpt-4',
    'gpt-4o-2024-08-06',
    'Qwen/Qwen2.5-1.5B-Instruct',
    'Qwen/Qwen3-30B-A3B-Instruct-2507',
    '/models/checkpoint-1000',
    'models/policy-7.gguf',
    'policy-7b',
    'policy-',
    'my-policy-7',
    '',
  ])('has no version from a server that always calls its model %j', async (model) => {
    for (const named of [undefined, model]) {
      const { calls } = await recorded([{}, {}], { said: { model }, wire: { model: named } })
      expect(calls.map((call) => call.version)).toEqual([null, null])
      expect(calls.map((call) => call.model)).toEqual([model || null, model || null])
    }
  })

  it('has the id, the model and the version that come behind a chunk without them', async () => {
    const filters = { prompt_filter_results: [], choices: [], id: '', model: '', created: 0 }
    const said = { ...chunk({ role: 'assistant', content: 'yes' }, 'stop'), model: 'policy-7' }
    const policy = await startPolicyEndpoint((response) =>
      sendStream(response, eventStream(filters, said)),
    )
    const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    const answer = await context.registerPolicySample('main').complete({ messages })
    expect(answer).toMatchObject({ id: 'chatcmpl-1', model: 'policy-7', created: 1 })
    const [call] = (await context.getSamples()).get('main')?.calls ?? []
    expect(call).toMatchObject({ id: 'chatcmpl-1', model: 'policy-7', version: 'policy-7' })
  })

  // What vLLM, SGLang and llama.cpp mask tokens for.
  const form = { type: 'json_schema', json_schema: { name: 'sum', schema: {} } }
  const toolOf = (strict: unknown) => ({ type: 'function', function: { name: 'add', strict } })
  it.each([
    [{ tools: [toolOf(true)] }, ['tools.strict']],
    [{ tools: [toolOf(false), toolOf(undefined), toolOf(null), {}, null] }, undefined],
    [{ tools: [toolOf(false), toolOf(true)], tool_choice: 'auto' }, ['tools.strict']],
    [{ tool_choice: 'none' }, undefined],
    [{ tool_choice: 'required' }, ['tool_choice']],
    [{ tool_choice: { type: 'function', function: { name: 'add' } } }, ['tool_choice']],
    [{ response_format: { type: 'text' } }, undefined],
    [{ response_format: null }, undefined],
    [{ response_format: { type: 'json_object' } }, ['response_format']],
    [{ response_format: form, tool_choice: 'required' }, ['tool_choice', 'response_format']],
    [{ structured_outputs: { json: {} } }, ['structured_outputs']],
    [{ guided_json: {}, guided_regex: null }, ['guided_json']],
    [{ guided_choice: ['a'] }, ['guided_choice']],
    [{ regex: 'a+' }, ['regex']],
    [{ ebnf: 'root ::= "a"' }, ['ebnf']],
    [{ grammar: 'root ::= "a"' }, ['grammar']],
    [{ json_schema: '{}' }, ['json_schema']],
  ])('with the request %j is held to a form by %j', async (request, constraints) => {
    const { calls } = await recorded([request])
    expect(calls.map(({ sampling }) => sampling['constraints'])).toEqual([constraints])
  })

  it('that failed has the version that was asked', async () => {
    const { calls } = await recorded([{ temperature: 0.5 }], {
      status: 400,
      wire: { model: 'policy-6' },
    })
    expect(calls).toMatchObject([
      {
        version: 'policy-6',
        model: null,
        sampling: { temperature: 0.5 },
        error: expect.any(String),
      },
    ])
  })
})
