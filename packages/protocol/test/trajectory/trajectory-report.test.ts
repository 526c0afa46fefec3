import { RolloutContext, toRolloutSample } from '@osmosis/core'
import { readTrajectoryReport } from '@osmosis/protocol/trajectory'
import { describe, expect, it } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../../../../test/kit/index.ts'
import {
  answer,
  conversation,
  documentOf,
  documentsOf,
  ended,
  report,
  sampleOf,
  samples,
  user,
} from './documents.ts'

const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 }

/** A conversation of two answers, whose first call has token ids. */
async function twoAnswers(): ReturnType<typeof conversation> {
  const first = answer({ content: 'a1' }, { usage }, { token_ids: [7, 8] })
  return conversation([first, answer({ content: 'a2' }, { usage })], [[user('q2')]])
}

describe('the report of a controller', () => {
  it('overrides our measurements field by field', async () => {
    const llmCalls = [
      { prompt_tokens: 11, logprobs: [-1, -2], model_name: 'step-5', unknown: true },
      { cost_usd: 0.5, extra: { engine: 'e' } },
    ]
    const document = documentOf(
      ended({
        samples: samples(await twoAnswers()),
        report: report({ model_name: 'step', samples: { main: { llm_call_metrics: llmCalls } } }),
      }),
    )
    expect(document.agent.model_name).toBe('step')
    expect(document.steps.filter(({ source }) => source === 'agent')).toMatchObject([
      {
        model_name: 'step-5',
        metrics: {
          prompt_tokens: 11,
          completion_tokens: 4,
          completion_token_ids: [7, 8],
          logprobs: [-1, -2],
        },
      },
      { model_name: 'policy-7', metrics: { cost_usd: 0.5, extra: { engine: 'e', attempts: 1 } } },
    ])
    expect(document.final_metrics).toEqual({
      total_prompt_tokens: 11,
      total_completion_tokens: 8,
      total_cost_usd: 0.5,
      total_steps: 4,
    })
  })

  it('overrides the totals, except for the number of steps', async () => {
    const totals = { total_prompt_tokens: 99, total_steps: 99 }
    const { final_metrics: sums } = documentOf(
      ended({
        samples: samples(await twoAnswers()),
        report: report({ samples: { main: { final_metrics: totals } } }),
      }),
    )
    expect(sums).toEqual({ total_prompt_tokens: 99, total_completion_tokens: 8, total_steps: 4 })
  })

  it('is listed apart, and counted, when it has another number of calls', async () => {
    const document = documentOf(
      ended({
        samples: samples(await twoAnswers()),
        report: report({ samples: { main: { llm_call_metrics: [{ prompt_tokens: 5 }] } } }),
      }),
    )
    expect(document.steps[1]).toMatchObject({ metrics: { prompt_tokens: 10 } })
    expect(document.final_metrics?.total_prompt_tokens).toBe(5)
    expect(document.extra?.['osmosis']).toMatchObject({
      unmatched_llm_call_metrics: [{ prompt_tokens: 5 }],
    })
  })

  it('belongs to the answers of the policy, and to no failed call or example of the prompt', async () => {
    const { url } = await startPolicyEndpoint((response, n) =>
      n === 1
        ? sendJson(response, 400, { error: { message: 'not like this' } })
        : sendJson(response, 200, answer({ content: `a${n}` }, { usage })),
    )
    const rollout = new RolloutContext({ rolloutId: 'r1', chatCompletionsUrl: url })
    rollout.registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    const policy = rollout.policy('main')
    const somethingElse = { messages: [user('something else')] }
    await expect(policy.complete(somethingElse)).rejects.toThrow('not like this')
    await policy.complete(somethingElse)
    const example = { role: 'assistant', content: 'an example' } as const
    await policy.complete({ messages: [user('q1'), example, user('q2')] })
    const llmCalls = [{ cost_usd: 1 }, { cost_usd: 2, completion_token_ids: [5, 6] }]
    const document = documentOf(
      ended({
        samples: await rollout.getSamples(),
        report: report({ samples: { main: { llm_call_metrics: llmCalls } } }),
      }),
    )
    const [shown, said] = document.steps.filter(({ source }) => source === 'agent')
    expect(shown).toEqual({ step_id: 2, source: 'agent', message: 'an example' })
    expect(said).toMatchObject({
      message: 'a3',
      metrics: { cost_usd: 2, completion_token_ids: [5, 6], prompt_tokens: 10 },
    })
    expect(document.extra?.['osmosis']).toMatchObject({
      calls_without_step: [
        { error: expect.stringContaining('not like this') as string },
        { cost_usd: 1, prompt_tokens: 10 },
      ],
    })
    expect(document.extra?.['osmosis']).not.toHaveProperty('unmatched_llm_call_metrics')
  })

  it('of one sample belongs to the only sample, whatever its key is', () => {
    const only = samples(sampleOf({ role: 'assistant', content: 'a' }))
    const entry = { model_name: 'm', llm_call_metrics: [{ prompt_tokens: 5 }] }
    const { agent, steps } = documentOf(
      ended({ samples: only, report: report({ samples: { 'r1/main': entry } }) }),
    )
    expect(agent.model_name).toBe('m')
    expect(steps).toMatchObject([{ metrics: { prompt_tokens: 5 }, llm_call_count: 1 }])
  })

  it('of an unknown sample is listed with an only sample, and dropped with several', () => {
    const other = report({ samples: { x: { model_name: 'm' }, y: {} } })
    const { extra } = documentOf(ended({ samples: samples(sampleOf(user('q'))), report: other }))
    expect(extra?.['osmosis']).toMatchObject({
      unmatched_sample_reports: { x: { model_name: 'm' }, y: {} },
    })
    const two = new Map([
      ['a', sampleOf(user('q'))],
      ['b', sampleOf(user('q'))],
    ])
    expect(JSON.stringify(documentsOf(ended({ samples: two, report: other })))).not.toMatch(
      /unmatched/,
    )
  })
})

describe('the body of an acknowledgement', () => {
  it.each(['', 'ok', 'null', '[]', '{}', '{"trajectory":null}', '"trajectory"'])(
    'may have no report: %s',
    (body) => {
      expect(readTrajectoryReport(body)).toBeNull()
    },
  )

  it.each<[unknown, RegExp]>([
    ['a text', /^trajectory\.: /],
    [{ samples: [] }, /^trajectory\.samples: /],
    [
      { samples: { main: { llm_call_metrics: [{ prompt_tokens: 'many' }] } } },
      /^trajectory\.samples\.main\.llm_call_metrics\.0\.prompt_tokens: /,
    ],
  ])('is refused with the path of the problem: %j', (trajectory, message) => {
    expect(() => report(trajectory)).toThrow(message)
  })

  it('loses only its totals when only those are malformed', () => {
    const read = report({ samples: { main: { llm_call_metrics: [{}], final_metrics: 'x' } } })
    expect(read?.samples.get('main')).toMatchObject({ calls: [{}], finalMetrics: null })
  })
})
