import { expect, it, vi } from 'vitest'

import { metricsIn } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'

it('shows rollouts, model calls and completed calls of a loop to callers with the key', async () => {
  const loop = loopOf(async (ctx) => {
    if (ctx.request.rolloutId === 'gives-up') return ctx.error('no idea')
    if (ctx.request.rolloutId === 'throws') throw new RangeError('out of range')
    return answerOnce(ctx)
  })
  await using running = await startApp({ loop, apiKey: 'app-key' })
  const key = { authorization: 'Bearer app-key' }
  const { trainer, url } = running
  trainer.chatAnswers.push(503)
  let sent = 0
  for (const rollout_id of ['good', 'gives-up', 'throws', 'no-answer']) {
    if (rollout_id === 'no-answer') trainer.chatAnswers.push(400)
    await running.init({ rollout_id, api_key: 'trainer-key' }, key)
    await trainer.results((sent += 1))
  }
  expect((await fetch(`${url}/metrics`)).status).toBe(401)

  await vi.waitFor(async () => {
    const text = await (await fetch(`${url}/metrics`, { headers: key })).text()
    const metrics = metricsIn(text)
    const ended = (outcome: string, category: string): number | undefined =>
      metrics.get(
        `osmosis_rollouts_ended_total{outcome="${outcome}",category="${category}",phase="workflow"}`,
      )
    expect({
      success: ended('success', 'none'),
      gaveUp: ended('failure', 'agent_error'),
      threw: ended('failure', 'validation_error'),
      unanswered: ended('failure', 'http_error'),
      answers: metrics.get('osmosis_policy_calls_total{outcome="stop"}'),
      errors: metrics.get('osmosis_policy_calls_total{outcome="error"}'),
      retries: metrics.get('osmosis_policy_retries_total'),
      input: metrics.get('osmosis_policy_tokens_total{direction="input"}'),
      output: metrics.get('osmosis_policy_tokens_total{direction="output"}'),
      delivered: metrics.get('osmosis_callbacks_total{kind="completed",outcome="acknowledged"}'),
      inFlight: metrics.get('osmosis_rollouts_in_flight'),
      running: metrics.get('osmosis_rollouts{state="running"}'),
      timed: metrics.get('osmosis_rollout_phase_seconds_count{phase="workflow"}'),
    }).toStrictEqual({
      success: 1,
      gaveUp: 1,
      threw: 1,
      unanswered: 1,
      answers: 1,
      errors: 1,
      retries: 1,
      input: 10,
      output: 4,
      delivered: 4,
      inFlight: 0,
      running: 0,
      timed: 4,
    })
    expect(text).not.toContain('app-key')
    expect(text).not.toContain('trainer-key')
  }, 60_000)
})
