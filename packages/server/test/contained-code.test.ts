import { describe, expect, it } from 'vitest'

import { startChild, type Child } from './start-child.ts'

const healthy = Array.from({ length: 50 }, (_, index) => `healthy ${index}`)
/** As pino writes it. */
const warn = 40
const place = String.raw`\(at \S*test/child-server\.ts:\d+:\d+\)`

/** What the controller was told of each rollout, by its id and the kind of callback. */
function told({ controller }: Child): Record<string, Record<string, unknown>> {
  const entries = controller.callbacks.map(({ kind, body }) => {
    const outcome = body as Record<string, unknown>
    return [`${String(outcome['rollout_id'])} ${kind}`, outcome] as const
  })
  expect(new Set(entries.map(([key]) => key)).size).toBe(entries.length)
  return Object.fromEntries(entries)
}

/** Starts healthy rollouts, that end when a harm has been done, and those that do it. */
async function harm(child: Child, harms: Record<string, unknown>): Promise<void> {
  const metadata = {
    ...Object.fromEntries(healthy.map((id) => [id, { outlasts: 'harm' }])),
    ...harms,
  }
  const answers = await Promise.all(
    Object.entries(metadata).map(async ([id, value]) =>
      child.post({ rollout_id: id, metadata: value }),
    ),
  )
  expect(new Set(answers.map(({ status }) => status))).toStrictEqual(new Set([202]))
  await child.controller.until(
    () => child.controller.callbacks.length >= 2 * Object.keys(metadata).length,
  )
}

describe.each(['workflow', 'grader'])('a %s that harms the process', (part) => {
  it.each([
    ['exit', `the ${part} called process\\.exit\\(0\\)`],
    ['timer', `the ${part} threw an error that nobody caught: thrown from a timer`],
    ['emitter', `the ${part} threw an error that nobody caught: thrown from a listener`],
    ['rejection', `the ${part} left a rejection unhandled: forgotten await`],
  ])(
    'by %s fails its own rollout alone, with the place, and the server goes on',
    async (how, text) => {
      await using child = await startChild()
      await harm(child, { harmful: { harm: how, in: part } })

      const message = expect.stringMatching(new RegExp(`^${text} ${place}$`)) as unknown
      const failure = { status: 'failure', err_message: message, err_category: 'agent_error' }
      const outcomes = told(child)
      expect(outcomes['harmful completion']).toMatchObject(
        part === 'workflow' ? failure : { status: 'success' },
      )
      expect(outcomes['harmful grader']).toMatchObject(failure)
      for (const id of healthy) {
        expect(outcomes[`${id} completion`]).toMatchObject({ status: 'success' })
        expect(outcomes[`${id} grader`]).toMatchObject({ status: 'success', sample: { reward: 1 } })
      }
      const warnings = child.log().filter(({ level }) => level === warn)
      expect(new Set(warnings.map((line) => line['rollout_id']))).toStrictEqual(
        new Set(['harmful']),
      )
      expect((await fetch(`${child.url}/health`)).status).toBe(200)
      child.kill('SIGTERM')
      expect(await child.exit).toStrictEqual([0, null])
    },
  )
})

describe('code of a rollout that is over', () => {
  it('is logged with the id, and the server goes on', async () => {
    await using child = await startChild()
    await child.post({ rollout_id: 'late', metadata: { harm: 'late' }, agent_timeout_sec: 0.05 })
    const text = 'after it had ended, the workflow threw an error that nobody caught: too late'
    await child.logged(text)

    expect(await child.controller.bodies()).toMatchObject([
      { status: 'failure', err_category: 'timeout' },
      { status: 'failure', err_category: 'timeout' },
    ])
    const lines = child.log().filter(({ msg }) => String(msg).startsWith(text))
    expect(lines).toMatchObject([{ level: warn, rollout_id: 'late' }])
    expect((await fetch(`${child.url}/health`)).status).toBe(200)
  })

  it('does not turn a clean end of the server into a failed one', async () => {
    await using child = await startChild({ drainSeconds: 0 })
    await child.post({ metadata: { harm: 'late' } })
    child.kill('SIGTERM')
    await child.logged('too late to matter')

    expect(await child.exit).toStrictEqual([0, null])
  })
})

describe('an error of no known rollout', () => {
  it.each([
    ['thrown', 'SIGUSR2'],
    ['rejected', 'SIGHUP'],
  ] as const)('%s, fails what runs, is logged, and ends the server with 1', async (how, signal) => {
    await using child = await startChild()
    const ids = healthy.slice(0, 10)
    await Promise.all(
      ids.map(async (id) => child.post({ rollout_id: id, metadata: { outlasts: 'harm' } })),
    )
    child.kill(signal)

    expect(await child.exit).toStrictEqual([1, null])
    const failure = { status: 'failure', err_message: 'rollout server shut down' }
    const outcomes = told(child)
    expect(Object.keys(outcomes)).toHaveLength(2 * ids.length)
    for (const outcome of Object.values(outcomes)) expect(outcome).toMatchObject(failure)
    await child.logged(`no rollout is known for an error: ${how} for nobody`)
  })
})
