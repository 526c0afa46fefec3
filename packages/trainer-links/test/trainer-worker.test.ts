import { setTimeout as sleep } from 'node:timers/promises'

import { runTrainerWorker, type TrainerLink } from '@osmosis/trainer-links'
import { expect, test } from 'vitest'

import { recordingLogger, type LogLine } from '../../../test/kit/index.ts'
import { RecordedSpans } from '../../../test/kit/recorded-spans.ts'
import { gateway, startWorker } from './gateway-worker.ts'
import { model, plannedAgent, row } from './planned-agent.ts'

test('a worker logs what it has done, and how much of it a trainer cannot use unchanged', async () => {
  const { fake } = await gateway(
    [
      { input: row() },
      { input: row({ rewrites: true }) },
      { input: row({ grading: 'removes' }) },
      { input: row({ afterwards: 'throws' }) },
    ],
    {
      model: async (body, rolloutId) => {
        const answer = await model(body, rolloutId)
        if (body.messages.length > 2 && rolloutId === 'rollout-0') {
          for (const choice of answer.choices) choice.finish_reason = 'length'
        }
        return answer
      },
    },
  )
  const worker = startWorker(fake, plannedAgent())
  await fake.allEnded()
  const summary = await worker.stop()
  expect(summary).toMatchObject({
    ends: { rewarded: 2, removed: 1, failed: 1, cancelled: 0 },
    retried: 0,
    undelivered: 0,
    samples: 2,
    rewritten: 1,
    calls: 4,
    cutOff: 1,
  })
  expect(worker.log.at(-1)).toEqual({
    level: 'info',
    message: `rollouts for Agent Lightning at ${fake.url}, in all`,
    fields: {
      running: 0,
      rewarded: 2,
      removed: 1,
      failed: 1,
      cancelled: 0,
      retried: 0,
      undelivered: 0,
      history_rewritten_share: 0.5,
      cut_off_share: 0.25,
    },
  })
})

test('a worker logs which agent had returned while the policy was answering it', async () => {
  const { fake } = await gateway([{ input: row({ afterwards: 'leaves a call' }) }])
  const worker = startWorker(fake, plannedAgent())
  await fake.allEnded()
  await worker.stop()
  expect(worker.log).toContainEqual({
    level: 'warn',
    message: expect.stringContaining('The policy was still answering "title" when run() ended.'),
    fields: { rollout_id: 'rollout-0' },
  })
})

test('no more rollouts are taken than may run concurrently', async () => {
  const { fake } = await gateway(Array.from({ length: 40 }, () => ({ input: row() })))
  let most = 0
  const agent = plannedAgent(() => {
    const taken = fake.rollouts.filter(({ state }) => state === 'running')
    most = Math.max(most, taken.length)
  })
  startWorker(fake, agent, { concurrency: 4 })
  await fake.allEnded()
  expect(most).toBe(4)
})

test.each([0, -1, 1.5, Number.NaN])('a worker that may run %d at a time is refused', async (n) => {
  const { fake } = await gateway([{ input: row() }])
  const worker = startWorker(fake, plannedAgent(), { concurrency: n })
  await expect(worker.done).rejects.toMatchObject({
    code: 'invalid_config',
    message: `concurrency must be a whole number of at least 1, got ${n}.`,
  })
})

test('a worker whose figures are wanted at its end alone does not log them before', async () => {
  const log: LogLine[] = []
  const link: TrainerLink = {
    name: 'a trainer',
    claim: async () => {
      await sleep(50)
      return null
    },
    complete: async () => {},
    [Symbol.asyncDispose]: async () => {},
  }
  const { backend } = plannedAgent()
  const options = { backend, link, concurrency: 1, logger: recordingLogger(log) }
  await runTrainerWorker({ ...options, summarySeconds: Number.POSITIVE_INFINITY })
  expect(log.map(({ message }) => message)).toEqual(['rollouts for a trainer, in all'])
})

test('a worker logs once that step rewards do not reach its trainer', async () => {
  const stepped = { input: row({ steps: [0.5, 1] }) }
  const { fake } = await gateway([stepped, stepped])
  const worker = startWorker(fake, plannedAgent())
  await fake.allEnded()
  await worker.stop()
  const warnings = worker.log.filter(({ message }) => message.includes('step rewards'))
  expect(warnings).toMatchObject([
    {
      level: 'warn',
      message: expect.stringContaining('which this trainer need not read') as string,
    },
  ])
})

test('a rollout of a trainer is a trace, with its agent, its model calls and its grader', async () => {
  using spans = new RecordedSpans()
  const { fake } = await gateway([{ input: row() }])
  const worker = startWorker(fake, plannedAgent())
  await fake.allEnded()
  await worker.stop()
  const [rollout] = spans.trees
  expect(rollout?.name).toMatch(/^invoke_workflow /)
  const below = rollout?.below ?? []
  expect(below.map(({ name }) => name.split(' ')[0])).toEqual(['invoke_agent', 'grade'])
  expect(below[0]?.below?.map(({ name }) => name)).toContain('chat osmosis-rollout')
})
