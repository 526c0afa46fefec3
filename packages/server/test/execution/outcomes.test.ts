import {
  getRolloutContext,
  requireRolloutContext,
  toRolloutSample,
  type GraderContext,
  type RolloutSample,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

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

  it('may modify its prompt and its metadata, which are copies, down to their parts', async () => {
    const row =
      '{"initialMessages":[{"role":"user","content":[{"type":"text","text":"Which?"}]}],' +
      '"metadata":{"choices":["a","b"],"__proto__":{"kept":true}}}'
    const backend = new LocalBackend({
      workflow: workflow(({ prompt, metadata }) => {
        expect(JSON.stringify({ initialMessages: prompt, metadata })).toBe(row)
        const [first] = prompt as { content: { text: string }[] }[]
        for (const part of first?.content ?? []) part.text += ' Say why.'
        prompt.push({ role: 'user', content: 'Now.' })
        ;(metadata as { choices: string[] }).choices.reverse()
        registerSamples('main')
      }),
      grader: grader((ctx) => {
        expect(ctx.metadata).toMatchObject({ choices: ['b', 'a'] })
        ctx.setReward(1)
      }),
    })
    const given = JSON.parse(row) as object
    const { completion, grading } = await run(backend, given)
    expect([completion.failure, grading?.failure]).toEqual([null, null])
    expect(JSON.stringify(given)).toBe(row)
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
})

describe('a grading that fails', () => {
  it.each<[string, (ctx: GraderContext) => void, object]>([
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
      'sets a bigint',
      (ctx) => ctx.setReward(1n as unknown as number),
      failed(/must be a finite number, got bigint 1n: give Number\(1n\)\.$/, 'validation_error'),
    ],
    [
      'sets an object that holds itself',
      (ctx) => {
        const circle: { self?: unknown } = {}
        circle.self = circle
        ctx.setReward(circle as unknown as number)
      },
      failed(/must be a finite number, got object that cannot be shown\.$/, 'validation_error'),
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

  it('names the samples when "the" sample is ambiguous', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('a', 'b')),
      grader: grader((ctx) => ctx.setReward(1)),
    })
    expect((await run(backend)).grading).toMatchObject(
      failed(/2 samples \(a, b\)/, 'validation_error'),
    )
  })

  it('names the sample of several that the grader forgot', async () => {
    const backend = new LocalBackend({
      workflow: workflow(() => registerSamples('a', 'b')),
      grader: grader((ctx) => ctx.setSampleReward('a', 1)),
    })
    expect((await run(backend)).grading).toMatchObject(
      failed(
        /no reward for sample "b"\. Call ctx\.setSampleReward\("b", reward\)/,
        'validation_error',
      ),
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
    expect(grading).toMatchObject(failed(/The grader set no reward/, 'validation_error'))
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
