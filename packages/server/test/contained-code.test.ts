import { describe, expect, it } from 'vitest'

import { startChild, type Child } from './start-child.ts'

const healthy = Array.from({ length: 10 }, (_, index) => `healthy ${index}`)

/** The callbacks that the controller received, by rollout id and kind. */
function received({ controller }: Child): Record<string, Record<string, unknown>> {
  const entries = controller.callbacks.map(({ kind, body }) => {
    const outcome = body as Record<string, unknown>
    return [`${String(outcome['rollout_id'])} ${kind}`, outcome] as const
  })
  expect(new Set(entries.map(([key]) => key)).size).toBe(entries.length)
  return Object.fromEntries(entries)
}

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
  it('rejected, fails what runs, is logged, and ends the server with 1', async () => {
    expect(await endAfter('rejected', 'SIGHUP')).toStrictEqual([1, null])
  })

  it(
    'thrown, fails what runs, is logged, and ends the server with 1',
    { tags: 'slow' },
    async () => {
      expect(await endAfter('thrown', 'SIGUSR2')).toStrictEqual([1, null])
    },
  )
})

/** How a server ends after the signal at which code outside of rollouts fails. Everything that ran has failed. */
async function endAfter(how: string, signal: NodeJS.Signals): Promise<unknown> {
  await using child = await startChild()
  await Promise.all(
    healthy.map(async (id) => child.post({ rollout_id: id, metadata: { outlasts: 1 } })),
  )
  child.kill(signal)

  const end = await child.exit
  const failure = { status: 'failure', err_message: 'rollout server shut down' }
  const outcomes = received(child)
  expect(Object.keys(outcomes)).toHaveLength(2 * healthy.length)
  for (const outcome of Object.values(outcomes)) expect(outcome).toMatchObject(failure)
  await child.logged(`an error belongs to no known rollout: ${how} outside of rollouts`)
  return end
}
