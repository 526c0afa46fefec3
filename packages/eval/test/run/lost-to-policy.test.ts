import type { PolicyModel } from '@osmosis/controller'
import { resumeRun, runEvaluation, type EvaluationResult, type PolicyHealth } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { datasetRows, names } from '../evaluations.ts'
import { answering, askingModel, journalOf, newRun } from '../stored-evaluations.ts'

/** A run of some rows with a policy, until it ends or pauses; `answers` is what a harmless call would be answered. */
async function evaluated(
  policy: PolicyModel,
  { rows, answers }: { readonly rows: number; readonly answers?: boolean[] },
): Promise<{ result: EvaluationResult; stored: (string | null)[]; location: string }> {
  await using store = await newRun(await temporaryFolder(), rows)
  const { model } = await askingModel(policy)
  const health: PolicyHealth = {
    failure: null,
    ...(answers && { answers: async () => answers.shift() ?? false }),
  }
  const options = { names, rows: datasetRows(rows), store }
  const result = await runEvaluation({ ...options, model: { ...model, policy: health } })
  const stored = journalOf(store).map(({ error_type: type }) => type)
  return { result, stored, location: store.location }
}

it('a run that met nothing but refusals pauses, and continues when the policy answers', async () => {
  const { result, stored, location } = await evaluated(answering(502), { rows: 3 })
  expect(result).toMatchObject({
    status: 'incomplete',
    incompleteReason:
      '3 consecutive rollouts were lost to the policy. The policy answered 502: sorry',
    pending: 3,
  })
  expect(stored).toEqual([])
  await using store = await resumeRun({ location })
  const { model } = await askingModel(answering(200))
  const again = await runEvaluation({ names, rows: datasetRows(3), model, store })
  expect([again.status, again.model.summary.failed]).toEqual(['finished', 0])
})

it.each([
  ['the last lost to a policy that is gone', [200, 200, 502], [false], [null, null], 1],
  ['one lost while others were answered', [200, 502, 200], [true], [null, 'http_error', null], 0],
  ['the last lost by itself', [200, 200, 502], [true], [null, null, 'http_error'], 0],
  [
    'all lost, each by itself',
    [502, 502, 502],
    [true],
    ['http_error', 'http_error', 'http_error'],
    0,
  ],
  ['one that ended well before the policy was gone', [502, 200, 502], [false, false], [null], 2],
])('%s', async (_, statuses, answers, stored, pending) => {
  const run = await evaluated(answering(...statuses), { rows: 3, answers })
  expect(run.stored).toEqual(stored)
  expect(run.result).toMatchObject({ pending, status: pending > 0 ? 'incomplete' : 'finished' })
})

/** Refuses to some calls, by their number, as a controller whose policy cannot be reached. */
function awayAt(isAway: (call: number) => boolean): PolicyModel {
  const yes = answering(200)
  const error = { message: 'The policy cannot be reached.', code: 'policy_unreachable' }
  let calls = 0
  return {
    name: 'p',
    respond: async (request) => {
      calls += 1
      return isAway(calls) ? Response.json({ error }, { status: 502 }) : yes.respond(request)
    },
  }
}

it.each([
  ['once runs again, and has not failed', (call: number) => call === 2, [null, null, null]],
  [
    'each time has failed when the policy answers',
    (call: number) => call > 2,
    [null, null, 'http_error'],
  ],
])('a rollout that ended while the policy was away %s', async (_, isAway, stored) => {
  const run = await evaluated(awayAt(isAway), { rows: 3, answers: [true] })
  expect([run.result.status, run.stored]).toEqual(['finished', stored])
})
