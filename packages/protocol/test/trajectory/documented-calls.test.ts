import type { PolicyCall, RolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { TrajectoryReport } from '@osmosis/protocol/trajectory'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { documentOf, documentsOf, ended, sampleOf, samples, user } from './documents.ts'

const answered: PolicyCall = {
  id: null,
  startedAt: 0,
  durationMs: 1,
  timeToFirstChunkMs: null,
  attempts: 1,
  extendsPrevious: true,
  instructionsChanged: false,
  agent: null,
  instructions: null,
  rewrittenAt: null,
  finishReason: 'stop',
  usage: null,
  model: 'policy-1',
  version: 'policy-1',
  purpose: 'agent',
  trainable: true,
  sampling: {},
  promptTokenIds: null,
  completionTokenIds: null,
  logprobs: null,
  error: null,
  answerIndex: null,
}

const count = fc.option(fc.nat(1000), { nil: null })
/** What a call used, as far as it is known, and where its answer is. */
const calls = fc.array(
  fc.record({
    prompt: count,
    completion: count,
    cached: count,
    cost: fc.option(
      fc.integer({ min: 0, max: 64 }).map((units) => units / 64),
      { nil: null },
    ),
    // Some servers report cached tokens beside the others.
    cachedWhere: fc.constantFrom('in details', 'beside'),
    kind: fc.constantFrom('in the conversation', 'elsewhere', 'failed', 'aside'),
  }),
  { maxLength: 6 },
)
type Used = (typeof calls extends fc.Arbitrary<infer List extends readonly unknown[]>
  ? List
  : never)[number]

/** A sample whose conversation has an answer for each call that is in it. */
function sampleWith(used: readonly Used[]): RolloutSample {
  const messages: ChatMessage[] = []
  const all = used.map(
    ({ prompt, completion, cached, cachedWhere, cost, kind }, at): PolicyCall => {
      const usage = {
        prompt_tokens: prompt,
        completion_tokens: completion,
        ...(cachedWhere === 'beside'
          ? { cached_tokens: cached }
          : { prompt_tokens_details: { cached_tokens: cached } }),
        cost_usd: cost,
      }
      const isShown = kind === 'in the conversation'
      if (isShown) messages.push(user(`q${at}`), { role: 'assistant', content: `a${at}` })
      return {
        ...answered,
        usage: usage as unknown as PolicyCall['usage'],
        error: kind === 'failed' ? 'refused' : null,
        ...(kind === 'aside' ? { purpose: 'title', trainable: false } : {}),
        answerIndex: isShown ? messages.length - 1 : null,
      }
    },
  )
  return { ...sampleOf(user('own')), trajectoryMessages: messages, calls: all }
}

/** The sum of what is known; undefined where nothing is. */
function sum(values: readonly (number | null)[]): number | undefined {
  let total: number | undefined
  for (const value of values) if (value !== null) total = (total ?? 0) + value
  return total
}

describe('the document of a sample', () => {
  it('has in its totals what each of its calls used, wherever the answer is', () => {
    fc.assert(
      fc.property(calls, (used) => {
        const { final_metrics: totals, steps } = documentOf(
          ended({ samples: samples(sampleWith(used)) }),
        )
        expect(totals?.total_prompt_tokens).toBe(sum(used.map(({ prompt }) => prompt)))
        expect(totals?.total_completion_tokens).toBe(sum(used.map(({ completion }) => completion)))
        expect(totals?.total_cached_tokens).toBe(sum(used.map(({ cached }) => cached)))
        expect(totals?.total_cost_usd).toBe(sum(used.map(({ cost }) => cost)))
        expect(totals?.total_steps).toBe(steps.length)
      }),
    )
  })

  it('has each call once: at the step of its answer, else among those without a step', () => {
    fc.assert(
      fc.property(calls, (used) => {
        const { steps, extra } = documentOf(ended({ samples: samples(sampleWith(used)) }))
        const own = extra?.['osmosis'] as
          | Readonly<Record<string, unknown[] | undefined>>
          | undefined
        const without = own?.['calls_without_step'] ?? []
        const shown = used.filter(({ kind }) => kind === 'in the conversation')
        const agent = steps.filter(({ source }) => source === 'agent')
        expect(agent.map(({ metrics }) => metrics?.prompt_tokens ?? null)).toEqual(
          shown.map(({ prompt }) => prompt),
        )
        expect(agent.every(({ llm_call_count: made }) => made === 1)).toBe(true)
        const others = used.filter(({ kind }) => kind !== 'in the conversation')
        expect(without).toMatchObject(
          others.map(({ prompt, kind }) => ({
            ...(prompt === null ? {} : { prompt_tokens: prompt }),
            ...(kind === 'failed' ? { error: 'refused' } : {}),
            extra: kind === 'aside' ? { purpose: 'title', trainable: false } : {},
          })),
        )
        expect(without).toHaveLength(others.length)
      }),
    )
  })

  it('has the totals that the controller measured instead, each with all calls of its report', () => {
    fc.assert(
      fc.property(calls, fc.array(count, { minLength: 1, maxLength: 5 }), (used, reported) => {
        const report: TrajectoryReport = {
          modelName: null,
          samples: new Map([
            [
              'main',
              {
                modelName: null,
                calls: reported.map((prompt) => ({
                  modelName: null,
                  metrics: prompt === null ? {} : { prompt_tokens: prompt },
                })),
                finalMetrics: null,
              },
            ],
          ]),
        }
        const { final_metrics: totals } = documentOf(
          ended({ samples: samples(sampleWith(used)), report }),
        )
        const own = sum(used.map(({ prompt }) => prompt))
        expect(totals?.total_prompt_tokens).toBe(sum(reported) ?? own)
        expect(totals?.total_completion_tokens).toBe(sum(used.map(({ completion }) => completion)))
      }),
    )
  })

  it('says that its sample is removed from training, and of the others nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }), (removed) => {
        const all = removed.map((removeSample, at) => ({
          ...sampleOf(user('q')),
          id: `s${at}`,
          removeSample,
          reward: removeSample ? null : 0,
        }))
        const said = documentsOf(ended({ samples: samples(...all) })).map(
          ({ extra }) => extra?.['osmosis'] as Readonly<Record<string, unknown>>,
        )
        expect(said.map((fields) => fields['remove_sample'])).toEqual(
          removed.map((isRemoved) => (isRemoved ? true : undefined)),
        )
        // A reward of 0 is one, and a sample without a reward has none.
        expect(said.map((fields) => fields['reward'])).toEqual(
          removed.map((isRemoved) => (isRemoved ? undefined : 0)),
        )
      }),
    )
  })

  it('leaves out counts that are none', () => {
    const wrong = fc.constantFrom<unknown>(-1, 1.5, '3', null, undefined, Infinity, Number.NaN, {})
    fc.assert(
      fc.property(wrong, wrong, wrong, (prompt, completion, cached) => {
        const usage = {
          prompt_tokens: prompt,
          completion_tokens: completion,
          cached_tokens: cached,
        }
        const own = [{ ...answered, usage: usage as unknown as PolicyCall['usage'] }]
        const sample = { ...sampleOf(user('q')), calls: own }
        const { final_metrics: totals } = documentOf(ended({ samples: samples(sample) }))
        expect(totals).toEqual({ total_steps: 1 })
      }),
    )
  })

  it('has the settings and the version of each call', () => {
    const [sampling, version] = [{ temperature: 0.5, stop: ['x'] }, 'policy-9']
    const messages: ChatMessage[] = [user('q'), { role: 'assistant', content: 'a' }]
    const call = { ...answered, sampling, version, answerIndex: 1 }
    const sample = { ...sampleOf(), trajectoryMessages: messages, calls: [call] }
    const { steps } = documentOf(ended({ samples: samples(sample) }))
    expect(steps[1]?.metrics?.extra).toMatchObject({ sampling, policy_version: version })
  })

  it('has the second of two calls with one answer among those without a step', () => {
    const messages: ChatMessage[] = [user('q'), { role: 'assistant', content: 'a' }]
    const own = [1, 2].map((at) => ({ ...answered, id: `x${at}`, answerIndex: 1 }))
    const sample = { ...sampleOf(), trajectoryMessages: messages, calls: own }
    const { steps, extra } = documentOf(ended({ samples: samples(sample) }))
    expect(steps[1]?.metrics?.extra).toMatchObject({ response_id: 'x1' })
    expect(extra?.['osmosis']).toMatchObject({
      calls_without_step: [{ extra: { response_id: 'x2' } }],
    })
  })

  it.each<
    [
      names: readonly (string | null)[],
      report: string | null,
      sample: string | null,
      expected: string,
    ]
  >([
    [['policy-1', 'policy-2', null], null, null, 'policy-2'],
    [['policy-1', 'policy-2'], 'of the rollout', null, 'of the rollout'],
    [['policy-1', 'policy-2'], 'of the rollout', 'of the sample', 'of the sample'],
    [['policy-1', 'policy-2'], null, 'of the sample', 'of the sample'],
  ])(
    'names the model of the last answer, or what is reported: %j, %s, %s',
    (names, of, own, expected) => {
      const sample = {
        ...sampleOf(user('q')),
        calls: names.map((model) => ({ ...answered, model })),
      }
      const report: TrajectoryReport = {
        modelName: of,
        samples: new Map([['main', { modelName: own, calls: [], finalMetrics: null }]]),
      }
      expect(documentOf(ended({ samples: samples(sample), report })).agent.model_name).toBe(
        expected,
      )
    },
  )
})

it('a lone report is that of a lone sample alone, whatever it is called', () => {
  const report: TrajectoryReport = {
    modelName: null,
    samples: new Map([['another', { modelName: 'reported', calls: [], finalMetrics: null }]]),
  }
  const [main, other] = [sampleOf(user('q')), { ...sampleOf(user('q')), id: 'other' }]
  const modelsOf = (...all: readonly RolloutSample[]): unknown[] =>
    documentsOf(ended({ samples: samples(...all), report })).map(({ agent }) => agent.model_name)
  expect(modelsOf(main)).toEqual(['reported'])
  expect(modelsOf(main, other)).toEqual([undefined, undefined])
})
