import { expect, it } from 'vitest'

import { askPolicy, startServer, workflowOf } from './running-server.ts'

it('a server says once that many callers read no more than one sample', async () => {
  const twice = workflowOf(async (ctx) => {
    await askPolicy(ctx, 'first')
    await askPolicy(ctx, 'second')
  })
  await using running = await startServer({ workflow: twice })
  const { controller, log } = running
  await running.post({ rollout_id: 'r1' })
  await controller.until(() => controller.callbacks.length === 2)
  await running.post({ rollout_id: 'r2' })
  await controller.until(() => controller.callbacks.length === 4)
  const graded = controller.callbacks.filter(({ kind }) => kind === 'grader')
  expect(graded.map(({ body }) => body)).toMatchObject([
    { rollout_id: 'r1', sample: null, samples: { first: {}, second: {} } },
    { rollout_id: 'r2', sample: null, samples: { first: {}, second: {} } },
  ])
  expect(log.filter(({ message }) => message.startsWith('several samples'))).toMatchObject([
    { level: 'warn', fields: { rollout_id: 'r1', samples: 2 } },
  ])
})
