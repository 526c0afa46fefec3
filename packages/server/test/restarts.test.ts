import { FakeController, temporaryFolder } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { startChild } from './start-child.ts'

it('fails only the grading of a rollout whose success was acknowledged before the server was killed', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new FakeController().start()
  const rollout = { metadata: { 'never graded': true } }
  {
    await using first = await startChild({ outboxDir, controller })
    await first.post(rollout)
    await controller.bodies(1)
    first.kill('SIGKILL')
    await first.exit
  }
  await using second = await startChild({ outboxDir, controller })
  const again = await second.post(rollout)
  expect([again.status, await again.json()]).toStrictEqual([202, {}])
  await controller.until(() => controller.callbacks.some(({ kind }) => kind === 'grader'))

  const told = controller.callbacks.map(({ kind, body }) => [kind, body])
  expect(told.at(-1)).toMatchObject([
    'grader',
    {
      status: 'failure',
      samples: {},
      sample: null,
      err_category: 'agent_error',
      err_message: expect.stringContaining('restarted') as string,
    },
  ])
  for (const [kind, body] of told.slice(0, -1)) {
    expect([kind, body]).toMatchObject(['completion', { status: 'success' }])
  }
})
