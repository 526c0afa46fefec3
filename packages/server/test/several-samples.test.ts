import { expect, it } from 'vitest'

import { post } from '../../../test/kit/index.ts'
import { askPolicy, graderOf, startServer, workflowOf } from './running-server.ts'

it('a server warns once that many callers read only one sample', async () => {
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

it('callbacks show each sample with its own reward, also below zero, and removed ones without', async () => {
  const names = ['good', 'bad', 'removed']
  await using running = await startServer({
    workflow: workflowOf(async (ctx) => {
      for (const name of names) await askPolicy(ctx, name)
    }),
    grader: graderOf((ctx) => {
      ctx.setSampleReward('good', 1.5)
      ctx.setSampleReward('bad', -2)
      ctx.setSampleReward('removed', 0.75)
      ctx.removeSample('removed')
    }),
  })
  const { controller } = running
  await running.post({ rollout_id: 'r1' })
  await controller.until(() => controller.callbacks.length === 2)
  expect(controller.callbacks.find(({ kind }) => kind === 'grader')?.body).toMatchObject({
    samples: {
      good: { reward: 1.5, remove_sample: false },
      bad: { reward: -2, remove_sample: false },
      removed: { reward: null, remove_sample: true },
    },
  })
})

it('a callback with one sample shows its reward below zero in both forms', async () => {
  await using running = await startServer({ grader: graderOf((ctx) => ctx.setReward(-0.25)) })
  const { controller } = running
  await running.post({ rollout_id: 'r1' })
  await controller.until(() => controller.callbacks.length === 2)
  expect(controller.callbacks.find(({ kind }) => kind === 'grader')?.body).toMatchObject({
    samples: { main: { reward: -0.25 } },
    sample: { reward: -0.25 },
  })
})

it.each([
  ['a big integer', 5n, '5'],
  ['a number', 0.5, '0.5'],
  ['a list', ['yes'], null],
  ['an object that has no JSON', { own: 5n }, null],
])('a label that user code sets to %s costs no reward', async (_, label, text) => {
  const fields = { label, removeSample: 0 }
  await using running = await startServer({
    grader: graderOf((ctx) => {
      Object.assign(ctx.sample, fields)
      ctx.setReward(1)
    }),
  })
  const { controller, log, server } = running
  await running.post({ rollout_id: 'r1' })
  await server.drain({ waitSeconds: 10 })
  expect(controller.callbacks.find(({ kind }) => kind === 'grader')?.body).toMatchObject({
    status: 'success',
    sample: { label: text, reward: 1, remove_sample: false },
  })
  expect(log.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
})

const stepped = graderOf((ctx) => {
  ctx.setReward(1)
  ctx.setStepRewards('main', [0.5])
})
const dropped = 'the grader sets step rewards, which this trainer need not read'

it.each([
  ['callbacks', {}],
  ['a lease', { completion_callback_url: undefined, grader_callback_url: undefined }],
])('a server says once that step rewards do not get to a controller with %s', async (_, ways) => {
  await using running = await startServer({ grader: stepped, shutdownGraceSeconds: 0.1 })
  for (const rollout_id of ['r1', 'r2'])
    expect((await running.post({ rollout_id, ...ways })).status).toBe(202)
  await running.server.drain({ waitSeconds: 10 })
  const warnings = running.log.filter(({ message }) => message.startsWith(dropped))
  expect(warnings).toMatchObject([
    { level: 'warn', fields: { rollout_id: expect.stringMatching(/^r[12]$/) as string } },
  ])
})

it('a server warns of step rewards in POST /run without a trace, and not with one', async () => {
  await using running = await startServer({ grader: stepped, run: {} })
  const { controller, log, url } = running
  const row = {
    prompt: 'Is it?',
    answer: 'yes',
    base_url: `${controller.url}/v1`,
    model: 'openai/model',
  }
  const warnings = (): number => log.filter(({ message }) => message.startsWith(dropped)).length
  await post(`${url}/run`, { ...row, trace: true })
  expect(warnings()).toBe(0)
  await post(`${url}/run`, row)
  await post(`${url}/run`, row)
  expect(warnings()).toBe(1)
})
