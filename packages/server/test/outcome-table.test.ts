import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import {
  AskOnce,
  askPolicy,
  graderOf,
  startServer,
  workflowOf,
  type RunningServer,
  type RunningServerOptions,
} from './running-server.ts'

/** One row of the outcome table: what happens, and the two bodies the controller then gets. */
interface Row {
  situation: string
  options?: RunningServerOptions
  request?: Record<string, unknown>
  /** Something done to the server once the workflow's policy call has arrived. */
  meanwhile?: (running: RunningServer) => unknown
  completion: unknown
  grader?: unknown
}

const completed = {
  rollout_id: 'r1',
  status: 'success',
  extra_fields: null,
  err_message: null,
  err_category: null,
}

const failed = (err_message: string, err_category: string): unknown => ({
  ...completed,
  status: 'failure',
  err_message,
  err_category,
})

const sample = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  label: null,
  reward: 1,
  remove_sample: false,
  messages: [
    { role: 'user', content: 'Is it?' },
    { role: 'assistant', content: 'yes' },
  ],
  metrics: {},
  extra_fields: {},
  ...changes,
})

const graded = (...samples: Record<string, unknown>[]): Record<string, unknown> => ({
  rollout_id: 'r1',
  status: 'success',
  samples: Object.fromEntries(
    samples.map(({ id = 'main', ...rest }) => [id, { id, ...rest }] as const),
  ),
  sample: samples.length === 1 ? samples[0] : null,
  err_message: null,
  err_category: null,
})

const notGraded = (err_message: string, err_category: string, ...samples: never[]): unknown => ({
  ...graded(...samples),
  status: 'failure',
  err_message,
  err_category,
})

const withSample = (err_message: string, err_category: string): unknown => ({
  ...graded(sample({ reward: null })),
  status: 'failure',
  err_message,
  err_category,
})

const rows: Row[] = [
  { situation: 'graded', completion: completed, grader: graded(sample()) },
  {
    situation: 'graded, with two samples',
    options: {
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx, 'a')
        await askPolicy(ctx, 'b')
      }),
    },
    completion: completed,
    grader: graded(sample({ id: 'a' }), sample({ id: 'b' })),
  },
  {
    situation: 'workflow threw',
    options: { workflow: workflowOf(() => Promise.reject(new Error('boom'))) },
    completion: failed('boom', 'agent_error'),
    grader: notGraded('boom', 'agent_error'),
  },
  {
    situation: 'workflow threw a validation error',
    options: { workflow: workflowOf(() => Promise.reject(new TypeError('no such tool'))) },
    completion: failed('no such tool', 'validation_error'),
    grader: notGraded('no such tool', 'validation_error'),
  },
  {
    situation: 'workflow threw something that has no text',
    // oxlint-disable-next-line prefer-promise-reject-errors -- user code may
    options: { workflow: workflowOf(() => Promise.reject(Object.create(null))) },
    completion: failed('something without a message was thrown', 'agent_error'),
    grader: notGraded('something without a message was thrown', 'agent_error'),
  },
  {
    situation: 'workflow constructor threw',
    options: {
      workflow: class extends AskOnce {
        constructor(config: unknown) {
          super(config)
          throw new Error('not today')
        }
      },
    },
    completion: failed('not today', 'agent_error'),
    grader: notGraded('not today', 'agent_error'),
  },
  {
    situation: 'workflow threw a TimeoutError of its own',
    options: {
      workflow: workflowOf(() => Promise.reject(new DOMException('tool too slow', 'TimeoutError'))),
    },
    completion: failed('tool too slow', 'timeout'),
    grader: notGraded('tool too slow', 'timeout'),
  },
  {
    situation: 'policy refused the call',
    request: { chat_completions_url: 'http://127.0.0.1:1/v1' },
    options: {
      workflow: workflowOf(async (ctx) => {
        const policy = requireRolloutContext('test').policy('main')
        await policy.complete({ messages: [] }).catch(() => {
          throw Object.assign(new Error(`the policy is down for ${ctx.rolloutId}`), { status: 503 })
        })
      }),
    },
    completion: failed('the policy is down for r1', 'http_error'),
    grader: notGraded('the policy is down for r1', 'http_error'),
  },
  {
    situation: 'workflow timed out',
    options: { workflow: workflowOf(() => new Promise(() => undefined)) },
    request: { agent_timeout_sec: 0.02 },
    completion: failed('workflow exceeded its 0.02s deadline', 'timeout'),
    grader: notGraded('workflow exceeded its 0.02s deadline', 'timeout'),
  },
  {
    situation: 'duplicate sample name',
    options: {
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx, 'twin')
        await askPolicy(ctx, 'twin')
      }),
    },
    completion: failed(
      'A sample named "twin" is already registered in this rollout. Give every agent or session of the workflow a name of its own.',
      'validation_error',
    ),
    grader: notGraded(
      'A sample named "twin" is already registered in this rollout. Give every agent or session of the workflow a name of its own.',
      'validation_error',
    ),
  },
  {
    situation: 'a sample source threw',
    options: {
      workflow: workflowOf(() => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: () => {
            throw new Error('the session is gone')
          },
        })
      }),
    },
    completion: failed('the session is gone', 'agent_error'),
    grader: notGraded('the session is gone', 'agent_error'),
  },
  {
    situation: 'no sample registered',
    options: { workflow: workflowOf(() => undefined) },
    completion: completed,
    grader: notGraded(
      'The workflow registered no sample source, so there is no sample to grade. Construct the agent or session of an adapter inside run(), call registerSampleSource() of the rollout context, or return the messages. If run() does so already, an `await` is probably missing.',
      'validation_error',
    ),
  },
  {
    situation: 'grader threw',
    options: {
      grader: graderOf((ctx) => {
        ctx.setReward(0.5)
        throw new Error('judge fell asleep')
      }),
    },
    completion: completed,
    grader: withSample('judge fell asleep', 'agent_error'),
  },
  {
    situation: 'grader left a kept sample unrewarded',
    options: { grader: graderOf(() => undefined) },
    completion: completed,
    grader: withSample(
      'Sample "main" has no reward after grading. Call ctx.setSampleReward("main", reward) for every sample, or ctx.removeSample("main").',
      'validation_error',
    ),
  },
  {
    situation: 'grader named an unknown sample',
    options: { grader: graderOf((ctx) => ctx.setSampleReward('nope', 1)) },
    completion: completed,
    grader: withSample(
      'There is no sample "nope" in this rollout. Its samples are: main.',
      'validation_error',
    ),
  },
  {
    situation: 'grader gave a reward that is no number',
    options: { grader: graderOf((ctx) => ctx.setReward(Number.NaN)) },
    completion: completed,
    grader: withSample(
      'The reward of sample "main" must be a finite number, got NaN.',
      'validation_error',
    ),
  },
  {
    situation: 'grader timed out',
    options: { grader: graderOf(() => new Promise(() => undefined)) },
    request: { grader_timeout_sec: 0.02 },
    completion: completed,
    grader: withSample('grader exceeded its 0.02s deadline', 'timeout'),
  },
  {
    situation: 'sample removed',
    options: {
      grader: graderOf((ctx) => {
        ctx.setReward(0.5)
        ctx.removeSample('main')
      }),
    },
    completion: completed,
    grader: graded(sample({ reward: null, remove_sample: true })),
  },
  {
    situation: 'no grader',
    options: { grader: null },
    completion: completed,
    grader: notGraded(
      'There is no grader, so this rollout has no reward. Export a class that extends Grader from the entrypoint.',
      'validation_error',
    ),
  },
  {
    situation: 'neither label nor metadata',
    request: { label: null, metadata: null },
    completion: completed,
    grader: notGraded(
      'The row has neither a label nor metadata, so there is nothing to grade against. Add ground_truth or metadata to the dataset.',
      'validation_error',
    ),
  },
  {
    situation: 'an empty label, which counts as present',
    request: { label: '', metadata: null },
    completion: completed,
    grader: graded(sample()),
  },
  {
    situation: 'empty metadata, which count as present',
    request: { label: null, metadata: {} },
    completion: completed,
    grader: graded(sample()),
  },
  {
    situation: 'no grader_callback_url',
    request: { grader_callback_url: null },
    completion: completed,
  },
  {
    situation: 'cancelled over the wire',
    meanwhile: ({ url }) =>
      fetch(`${url}/rollout/cancel`, { method: 'POST', body: '{"ids":["r1"]}' }),
    completion: failed('cancelled', 'agent_error'),
    grader: notGraded('cancelled', 'agent_error'),
  },
  {
    situation: 'server shut down before the end',
    meanwhile: ({ server }) => server.drain({ waitSeconds: 0 }),
    completion: failed('rollout server shut down', 'agent_error'),
    grader: notGraded('rollout server shut down', 'agent_error'),
  },
  {
    situation: 'metrics and extra fields without a JSON form',
    options: {
      workflow: workflowOf((ctx) => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) =>
            toRolloutSample({
              id,
              messages: ctx.prompt,
              metrics: { score: 0.5, ratio: Number.NaN, at: new Date(0), tokens: 12n },
              extraFields: { done: () => true, kinds: new Set(['a']), by: new Map([['b', 1]]) },
            }),
        })
      }),
    },
    completion: completed,
    grader: graded(
      sample({
        messages: [{ role: 'user', content: 'Is it?' }],
        metrics: { score: 0.5, at: '1970-01-01T00:00:00.000Z', tokens: 12 },
        extra_fields: { kinds: ['a'], by: { b: 1 } },
      }),
    ),
  },
  {
    situation: 'messages that cannot be encoded',
    options: {
      workflow: workflowOf(() => {
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) =>
            toRolloutSample({ id, messages: [{ tokens: 2n ** 70n }], metrics: { score: 1 } }),
        })
      }),
    },
    completion: completed,
    grader: graded(sample({ messages: [] })),
  },
]

describe('what the controller is told', () => {
  it.each(rows)('$situation', async ({ options, request, meanwhile, completion, grader }) => {
    await using running = await startServer(options)
    const { controller } = running
    controller.hanging = meanwhile !== undefined

    expect((await running.post(request)).status).toBe(202)
    if (meanwhile) {
      await controller.until(() => controller.openPolicyCalls === 1)
      await meanwhile(running)
    }
    await controller.bodies(grader === undefined ? 1 : 2)
    await running.server.drain()

    expect(controller.callbacks.map(({ kind, body }) => ({ kind, body }))).toStrictEqual([
      { kind: 'completion', body: completion },
      ...(grader === undefined ? [] : [{ kind: 'grader', body: grader }]),
    ])
  })
})
