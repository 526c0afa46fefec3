import { post } from '../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { startChild, type Child } from './start-child.ts'

const healthy = Array.from({ length: 10 }, (_, index) => `healthy ${index}`)
/** As pino writes it. */
const warn = 40
const place = String.raw`\(at \S*test/child-server\.ts:\d+:\d+\)`
const harms = {
  exit: 'called process\\.exit\\(0\\)',
  timer: 'threw an uncaught error: thrown from a timer',
  emitter: 'threw an uncaught error: thrown from a listener',
  rejection: 'left a rejection unhandled: forgotten await',
}

/** The callbacks that the controller received, by rollout id and kind. */
function received({ controller }: Child): Record<string, Record<string, unknown>> {
  const entries = controller.callbacks.map(({ kind, body }) => {
    const outcome = body as Record<string, unknown>
    return [`${String(outcome['rollout_id'])} ${kind}`, outcome] as const
  })
  expect(new Set(entries.map(([key]) => key)).size).toBe(entries.length)
  return Object.fromEntries(entries)
}

it('rollouts that harm the process, some after their end, fail alone, and the error names the place', async () => {
  await using child = await startChild()
  const harmful = ['workflow', 'grader'].flatMap((part) =>
    Object.entries(harms).map(([harm, text]) => ({ id: `${harm} in ${part}`, part, harm, text })),
  )
  const rollouts = [
    ...healthy.map((id) => [id, { outlasts: harmful.length + 1 }] as const),
    ...harmful.map(({ id, harm, part }) => [id, { harm, in: part }] as const),
  ]
  const answers = await Promise.all(
    rollouts.map(async ([rollout_id, metadata]) => child.post({ rollout_id, metadata })),
  )
  await child.post({ rollout_id: 'late', metadata: { harm: 'late' } })
  await child.controller.until(() =>
    child.controller.policyHeaders.some((headers) => headers['x-rollout-id'] === 'late'),
  )
  await post(`${child.url}/rollout/cancel`, { ids: ['late'] })
  expect(new Set(answers.map(({ status }) => status))).toStrictEqual(new Set([202]))
  await child.controller.until(() => child.controller.callbacks.length >= 2 * (rollouts.length + 1))
  const late = 'after the rollout ended, the workflow threw an uncaught error: too late'
  await child.logged(late)

  const outcomes = received(child)
  for (const { id, part, text } of harmful) {
    const message = expect.stringMatching(new RegExp(`^the ${part} ${text} ${place}$`)) as unknown
    const failure = { status: 'failure', err_message: message, err_category: 'agent_error' }
    const completion = part === 'workflow' ? failure : { status: 'success' }
    expect(outcomes[`${id} completion`]).toMatchObject(completion)
    expect(outcomes[`${id} grader`]).toMatchObject(failure)
  }
  for (const id of healthy) {
    expect(outcomes[`${id} completion`]).toMatchObject({ status: 'success' })
    expect(outcomes[`${id} grader`]).toMatchObject({ status: 'success', sample: { reward: 1 } })
  }
  const cancelled = { status: 'failure', err_message: 'cancelled' }
  expect([outcomes['late completion'], outcomes['late grader']]).toMatchObject([
    cancelled,
    cancelled,
  ])
  const lines = child.log().filter(({ msg }) => String(msg).startsWith(late))
  expect(lines).toMatchObject([{ level: warn, rollout_id: 'late' }])
  const warnings = child.log().filter(({ level }) => level === warn)
  expect(new Set(warnings.map((line) => line['rollout_id']))).toStrictEqual(
    new Set(['late', ...harmful.map(({ id }) => id)]),
  )
  expect((await fetch(`${child.url}/health`)).status).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exit).toStrictEqual([0, null])
})

it('code of an ended rollout does not turn a clean exit of the server into a failure', async () => {
  await using child = await startChild({ drainSeconds: 0 })
  await child.post({ rollout_id: 'late', metadata: { harm: 'late' } })
  await child.controller.until(() =>
    child.controller.policyHeaders.some((headers) => headers['x-rollout-id'] === 'late'),
  )
  child.kill('SIGTERM')
  await child.logged('too late to matter')

  expect(await child.exit).toStrictEqual([0, null])
})

describe('an error of no known rollout', () => {
  it.each([
    ['thrown', 'SIGUSR2'],
    ['rejected', 'SIGHUP'],
  ] as const)('%s, fails what runs, is logged, and ends the server with 1', async (how, signal) => {
    await using child = await startChild()
    await Promise.all(
      healthy.map(async (id) => child.post({ rollout_id: id, metadata: { outlasts: 1 } })),
    )
    child.kill(signal)

    expect(await child.exit).toStrictEqual([1, null])
    const failure = { status: 'failure', err_message: 'rollout server shut down' }
    const outcomes = received(child)
    expect(Object.keys(outcomes)).toHaveLength(2 * healthy.length)
    for (const outcome of Object.values(outcomes)) expect(outcome).toMatchObject(failure)
    await child.logged(`an error belongs to no known rollout: ${how} outside of rollouts`)
  })
})
