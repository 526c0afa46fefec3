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
  const all = used.map(({ prompt, completion, cached, cost, kind }, at): PolicyCall => {
    const usage = {
      prompt_tokens: prompt,
      completion_tokens: completion,
      prompt_tokens_details: { cached_tokens: cached },
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
  })
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
})
