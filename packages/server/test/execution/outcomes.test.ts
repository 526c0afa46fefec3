import {
  AgentWorkflow,
  getRolloutContext,
  OsmosisError,
  requireRolloutContext,
  toRolloutSample,
  type GraderContext,
  type RolloutSample,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'

const oneSample = workflow(() => registerSamples('main'))
const rewardAll = grader((ctx) => {
  for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
})

const failed = (message: string | RegExp, category: string): object => ({
  status: 'failure',
  failure: {
    message: typeof message === 'string' ? message : expect.stringMatching(message),
    category,
    cause: expect.anything(),
  },
})

describe('a graded rollout', () => {
  it('succeeds with the rewards of all its samples', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('a', 'b')),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend)
    expect(completion).toEqual({ status: 'success', failure: null, warnings: [expect.any(String)] })
    expect(grading).toMatchObject({ status: 'success', failure: null })
    expect([...(grading?.samples ?? [])].map(([id, { reward }]) => [id, reward])).toEqual([
      ['a', 1],
      ['b', 1],
    ])
  })

  it('gives the grader the label, the metadata and the samples, but no rollout context', async () => {
    let seen: Partial<GraderContext> | undefined
    const backend = new LocalBackend({
      workflow: oneSample,
      grader: grader((ctx) => {
        const { label, metadata, rolloutId, sample } = ctx
        seen = { label, metadata, rolloutId, sample }
        expect(getRolloutContext()).toBeUndefined()
        ctx.setReward(0.5)
      }),
    })
    const { grading } = await run(backend, { label: '', metadata: { level: 2 } })
    expect(seen).toMatchObject({
      label: '',
      metadata: { level: 2 },
      rolloutId: 'r',
      sample: { id: 'main' },
    })
    expect(grading?.samples.get('main')?.reward).toBe(0.5)
  })

  it.each([null, '', ' \n'])(
    'has no reward where the grader requires a label and the row has %j',
    async (label) => {
      const paysForAnything = grader((ctx) => {
        ctx.setReward('any answer'.includes(ctx.requireLabel()) ? 1 : 0)
      })
      const backend = new LocalBackend({ workflow: oneSample, grader: paysForAnything })
      const { grading } = await run(backend, { label, metadata: { level: 2 } })
      expect(grading?.failure).toMatchObject({
        category: 'validation_error',
        message: expect.stringMatching(/needs a reference answer.*Give the row a ground_truth/),
      })
      expect(grading?.samples.get('main')?.reward).toBeNull()
      const answered = await run(backend, { label: 'any' })
      expect(answered.grading?.samples.get('main')?.reward).toBe(1)
    },
  )

  it('warns when the workflow made no model call through its rollout', async () => {
    const { completion } = await run(new LocalBackend({ workflow: oneSample, grader: rewardAll }))
    expect(completion?.warnings).toEqual([
      'No model call reached the policy. The agent probably still has its old model: give it that of its adapter, and await its run.',
    ])
  })

  it('is graded only when the request asks for it', async () => {
    const { completion, grading } = await run(
      new LocalBackend({ workflow: oneSample, grader: grader(() => expect.fail()) }),
      { grade: false },
    )
    expect(completion?.status).toBe('success')
    expect(grading).toBeUndefined()
  })

  it.each([{ label: '' }, { label: null, metadata: {} }])(
    'accepts %j as something to grade against',
    async (row) => {
      const { grading } = await run(
        new LocalBackend({ workflow: oneSample, grader: rewardAll }),
        row,
      )
      expect(grading?.status).toBe('success')
    },
  )
})

describe('a workflow that fails', () => {
  it.each([
    [
      'throws an error',
      workflow(() => {
        throw new Error('boom')
      }),
      failed(/^thrown by run\(\) at \S+outcomes\.test\.ts:\d+: boom$/, 'agent_error'),
    ],
    [
      'throws an error without a message',
      workflow(() => {
        throw new RangeError()
      }),
      failed(/^thrown by run\(\) at \S+:\d+: RangeError$/, 'validation_error'),
    ],
    [
      'throws a value that is not an error',
      workflow(() => {
        // oxlint-disable-next-line typescript/only-throw-error
        throw 'boom'
      }),
      failed('thrown by run(): boom', 'agent_error'),
    ],
    [
      'gives two samples the same name',
      workflow(() => registerSamples('main', 'main')),
      failed(/"main" is already registered/, 'validation_error'),
    ],
    [
      'throws its own TimeoutError',
      workflow(() => {
        throw new DOMException('tool took too long', 'TimeoutError')
      }),
      failed(/^thrown by run\(\) at \S+outcomes\.test\.ts:\d+: tool took too long$/, 'timeout'),
    ],
    [
      'has a sample source that throws',
      workflow(() =>
        getRolloutContext()?.registerSampleSource('main', {
          getSample: () => {
            throw new Error('no messages')
          },
        }),
      ),
      failed(
        /^thrown by a sample source at \S+outcomes\.test\.ts:\d+: no messages$/,
        'agent_error',
      ),
    ],
    [
      'did not read a stream that ended early',
      workflow(() => {
        registerSamples('planner')
        getRolloutContext()?.registerSampleSource('main', {
          getSample: (id) => toRolloutSample({ id, messages: [] }),
          unnoticedError: () => new OsmosisError('policy_stream_error', 'it broke off'),
        })
      }),
      failed('it broke off', 'http_error'),
    ],
    [
      'cannot be constructed',
      class extends AgentWorkflow {
        constructor(config: unknown) {
          super(config)
          throw new OsmosisError('invalid_config', 'bad config')
        }
        async run(): Promise<void> {}
      },
      failed(
        /^thrown by the constructor of the workflow at \S+outcomes\.test\.ts:\d+: bad config$/,
        'validation_error',
      ),
    ],
  ])('fails its completion and its grading when it %s', async (_why, failing, expected) => {
    const backend = new LocalBackend({ workflow: failing, grader: grader(() => expect.fail()) })
    const { completion, grading } = await run(backend)
    expect(completion).toEqual({ ...expected, warnings: [], partialSamples: expect.any(Promise) })
    expect(grading).toEqual({ ...expected, samples: new Map() })
    expect(backend.status('r')).toEqual({
      status: 'failure',
      reward: null,
      errorMessage: completion?.failure?.message,
    })
  })
})

describe('a grading that fails', () => {
  it.each<[string, (ctx: GraderContext) => void, object]>([
    [
      'throws',
      () => {
        throw new Error('gboom')
      },
      failed(/^thrown by grade\(\) at \S+outcomes\.test\.ts:\d+: gboom$/, 'agent_error'),
    ],
    [
      'leaves a sample without a reward',
      () => {},
      failed(/Sample "main" has no reward/, 'validation_error'),
    ],
    [
      'names an unknown sample',
      (ctx) => ctx.setSampleReward('nope', 1),
      failed(/no sample "nope".*main/, 'validation_error'),
    ],
    [
      'sets NaN',
      (ctx) => ctx.setReward(Number.NaN),
      failed(
        /^thrown by grade\(\) at \S+:\d+: The reward of sample "main" must be a finite number, got NaN\.$/,
        'validation_error',
      ),
    ],
    [
      'sets infinity',
      (ctx) => ctx.setReward(Number.POSITIVE_INFINITY),
      failed(/got Infinity/, 'validation_error'),
    ],
    [
      'sets a string',
      (ctx) => ctx.setReward('1' as unknown as number),
      failed(
        /^thrown by grade\(\) at .* "main" must be a finite number, got string "1"\.$/,
        'validation_error',
      ),
    ],
    [
      'writes a reward directly into the sample',
      (ctx) => {
        Object.assign(ctx.sample, { reward: Number.NaN })
      },
      failed(/got NaN/, 'validation_error'),
    ],
  ])('reports the samples when the grader %s', async (_why, body, expected) => {
    const backend = new LocalBackend({ workflow: oneSample, grader: grader(body) })
    const { completion, grading } = await run(backend)
    expect(completion?.status).toBe('success')
    expect(grading).toEqual({ ...expected, samples: grading?.samples })
    expect([...(grading?.samples.keys() ?? [])]).toEqual(['main'])
  })

  it('names what is missing when there is nothing to grade', async () => {
    const noSamples = await run(
      new LocalBackend({ workflow: workflow(() => {}), grader: rewardAll }),
    )
    expect(noSamples.grading).toEqual({
      ...failed(/^No model call reached the policy\. .*old model/, 'validation_error'),
      samples: new Map(),
    })
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('4')))
    const callsAlone = workflow(async () =>
      requireRolloutContext('It').policy('main').complete({ messages: [] }),
    )
    const noSource = await run(new LocalBackend({ workflow: callsAlone, grader: rewardAll }), {
      chatCompletionsUrl: policy.url,
    })
    expect(noSource.grading?.failure?.message).toMatch(/registered no sample source/)
    const noGrader = await run(new LocalBackend({ workflow: oneSample }))
    expect(noGrader.grading).toEqual({
      ...failed(/There is no grader/, 'validation_error'),
      samples: new Map([['main', expect.anything()]]),
    })
    const noLabel = await run(new LocalBackend({ workflow: oneSample, grader: rewardAll }), {
      label: null,
    })
    expect(noLabel.grading).toEqual({
      ...failed(/neither a label nor metadata/, 'validation_error'),
      samples: new Map(),
    })
    expect(noLabel.completion?.status).toBe('success')
  })

  it('names the samples when "the" sample is ambiguous', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('a', 'b')),
      grader: grader((ctx) => ctx.setReward(1)),
    })
    expect((await run(backend)).grading).toMatchObject(
      failed(/2 samples \(a, b\)/, 'validation_error'),
    )
  })
})

describe('a grader', () => {
  it('cannot delete samples of the rollout', async () => {
    const backend = new LocalBackend({
      workflow: oneSample,
      grader: grader((ctx) => {
        const samples = ctx.samples as Map<string, RolloutSample>
        samples.clear()
        expect(samples.size).toBe(0)
        expect(ctx.sample.id).toBe('main')
      }),
    })
    const { grading } = await run(backend)
    expect(grading).toMatchObject(failed(/Sample "main" has no reward/, 'validation_error'))
    expect([...(grading?.samples.keys() ?? [])]).toEqual(['main'])
  })

  it('can reward a sample whose extra fields cannot be read', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('4')))
    const unreadable = {
      fine: 1,
      get broken(): never {
        throw new Error('closed')
      },
    }
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        const rollout = requireRolloutContext('test')
        rollout.registerSampleSource('main', {
          getSample: (id) =>
            toRolloutSample({ id, messages: [], metrics: unreadable, extraFields: unreadable }),
        })
        await rollout.policy('main').complete({ messages: [] })
      }),
      grader: rewardAll,
    })
    const { completion, grading } = await run(backend, { chatCompletionsUrl: policy.url })
    expect(completion?.failure).toBeNull()
    expect(grading?.samples.get('main')).toMatchObject({ reward: 1, extraFields: { fine: 1 } })
  })
})

it('recognises a cancel by the error of another installed copy of the package', async () => {
  const backend = new LocalBackend({
    workflow: workflow(() => {
      throw Object.assign(new Error('cancelled'), {
        [Symbol.for('osmosis.error')]: true,
        code: 'cancelled',
      })
    }),
  })
  await run(backend)
  expect(backend.status('r').status).toBe('cancelled')
})

it('requires no reward for a removed sample', async () => {
  const backend = new LocalBackend({
    workflow: workflow(() => registerSamples('a', 'b')),
    grader: grader((ctx) => {
      ctx.removeSample('a')
      ctx.setSampleReward('b', 1)
    }),
  })
  const { grading } = await run(backend)
  expect(grading?.status).toBe('success')
  expect(grading?.samples.get('a')).toMatchObject({ removeSample: true, reward: null })
})
