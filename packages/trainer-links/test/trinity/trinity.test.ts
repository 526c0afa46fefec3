import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { FakeTrinity, randomFaults, type TrinityCall } from '../../../../test/kit/trainers/index.ts'
import { recordingLogger, tokenAnswer, type LogLine } from '../../../../test/kit/index.ts'
import { runTrainerWorker, trinity, type WorkerSummary } from '@osmosis/trainer-links'
import { expect, test } from 'vitest'

import {
  scriptedBackend,
  earned,
  rowsOf,
  startExplorer,
  train,
  trainedAs,
  type Script,
} from './scripted-attempts.ts'

test('trains each answered call with the reward of its rollout, in its group, under its attempt', async () => {
  await using explorer = await startExplorer()
  const scripts = (row: number, attempt: number): Script => ({ reward: row + attempt / 10 })
  const { scripted, summary } = await train(explorer, { scripts })

  expect(scripted.graded).toHaveLength(12)
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
  expect(explorer.unrewarded()).toEqual([])
  expect(summary.ends).toEqual({ rewarded: 12, removed: 0, failed: 0, cancelled: 0 })
  const [call] = explorer.trained()
  expect(call).toMatchObject({ rolloutId: 'run-0-0-1', group: '0-0', run: 1, reward: 0.1 })
  expect(String.fromCodePoint(...(call?.promptIds ?? []))).toBe(
    '[{"role":"user","content":"row 0"}]',
  )
})

test.each<[NonNullable<Script['end']>, string]>([
  ['removed', 'removed'],
  ['throws', 'failed'],
  ['ungraded', 'failed'],
  ['grader throws', 'failed'],
  ['hangs', 'failed'],
  ['cancelled', 'cancelled'],
])('trains nothing of an attempt that ends after two calls as: %s', async (end, kind) => {
  await using explorer = await startExplorer()
  const scripts = (row: number, attempt: number): Script =>
    row === 1 && attempt === 2 ? { end } : {}
  const { scripted, summary } = await train(explorer, { scripts, agentTimeoutSeconds: 4 })

  expect(summary.ends).toMatchObject({ rewarded: 11, [kind]: 1 })
  expect(scripted.graded).toHaveLength(11)
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
  const silent = explorer.unrewarded().map(({ rolloutId }) => rolloutId)
  const tries = kind === 'failed' ? ['run-0-1-2', 'run-0-1-2-again'] : ['run-0-1-2']
  expect([...new Set(silent)]).toEqual(tries)
  expect(silent).toHaveLength(tries.length * 2)
})

test('trains each of several samples with its own reward, also below zero', async () => {
  const rewards = { writer: 2, critic: -3 }
  class Both extends AgentWorkflow {
    async run(): Promise<void> {
      for (const name of Object.keys(rewards)) {
        const messages = [{ role: 'user', content: name }]
        await requireRolloutContext('Both').registerPolicySample(name).complete({ messages })
      }
    }
  }
  class Each extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      for (const [name, reward] of Object.entries(rewards)) ctx.setSampleReward(name, reward)
    }
  }
  await using explorer = await startExplorer()
  const dataset = rowsOf(1)
  const link = trinity({
    url: explorer.url,
    dataset,
    attempts: 2,
    groupsPerCommit: 1,
    runName: 'run',
  })
  const backend = new LocalBackend({ workflow: Both, grader: Each })
  await runTrainerWorker({ backend, link, concurrency: 4 })
  await link[Symbol.asyncDispose]()
  const trained = explorer.trained().map(({ promptIds, reward }) => {
    const [message] = JSON.parse(String.fromCodePoint(...promptIds)) as { content: string }[]
    return `${message?.content} ${reward}`
  })
  expect(trained.toSorted((a, b) => a.localeCompare(b))).toEqual([
    'critic -3',
    'critic -3',
    'writer 2',
    'writer 2',
  ])
})

test('an agent that never called the policy fails, even with a reward of its grader', async () => {
  await using explorer = await startExplorer()
  const scripts = (row: number): Script => (row === 0 ? { calls: 0 } : {})
  const { summary } = await train(explorer, { scripts })
  expect(summary.ends).toMatchObject({ rewarded: 9, failed: 3 })
  expect(new Set(explorer.trained().map(({ group }) => group))).toEqual(
    new Set(['0-1', '0-2', '0-3']),
  )
})

test('an attempt that failed is run once more under its run id, and only that try is trained', async () => {
  await using explorer = await startExplorer()
  const scripts = (row: number, attempt: number): Script =>
    row === 0 && attempt === 3 ? { end: 'throws', isFirstTry: true, reward: 0.3 } : {}
  const { scripted, summary } = await train(explorer, { scripts })

  expect(summary).toMatchObject({ retried: 1, ends: { rewarded: 12, failed: 0 } })
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
  const again = explorer.trained().filter(({ group, run }) => group === '0-0' && run === 3)
  expect(again.map(({ rolloutId, reward }) => [rolloutId, reward])).toEqual([
    ['run-0-0-3-again', 0.3],
    ['run-0-0-3-again', 0.3],
  ])
  expect(explorer.unrewarded().map(({ rolloutId }) => rolloutId)).toEqual([
    'run-0-0-3',
    'run-0-0-3',
  ])
})

test('each sample has its own reward, and each call the one that the grader gave that step', async () => {
  await using explorer = await startExplorer()
  const samples = ['writer', 'critic']
  const { scripted } = await train(explorer, {
    dataset: rowsOf(1),
    attempts: 1,
    scripts: () => ({ samples, calls: 3, reward: 5, steps: [0.1, null, 0.3] }),
  })
  expect(scripted.graded.map(({ sample, reward }) => [sample, reward])).toEqual([
    ['writer', 5],
    ['critic', 6],
  ])
  const rewards = explorer.trained().map(({ reward, promptIds }) => [promptIds.length, reward])
  const bySteps = rewards.toSorted(([a = 0], [b = 0]) => a - b).map(([, reward]) => reward)
  // The first call of each sample, then the second ones, then the third.
  expect(bySteps.slice(0, 2)).toEqual([0.1, 0.1])
  expect(new Set(bySteps.slice(2, 4))).toEqual(new Set([5, 6]))
  expect(bySteps.slice(4)).toEqual([0.3, 0.3])
})

test('every part of a compacted conversation is trained, and the call that compacted it is not', async () => {
  await using explorer = await startExplorer()
  const scripts = (): Script => ({ calls: 4, compactsAfter: 2, reward: 0.5 })
  await train(explorer, { dataset: rowsOf(1), attempts: 1, scripts })
  const textOf = ({ promptIds }: { readonly promptIds: readonly number[] }): string =>
    String.fromCodePoint(...promptIds)
  const prompts = explorer.trained().map(textOf)
  expect(prompts.filter((prompt) => prompt.includes('so far'))).toHaveLength(2)
  expect(explorer.trained().map(({ reward }) => reward)).toEqual([0.5, 0.5, 0.5, 0.5])
  expect(explorer.unrewarded().map(textOf)).toEqual([expect.stringContaining('a summary')])
})

test('commits when all groups of a batch have ended, continues after that, and commits what is left', async () => {
  const scripted = scriptedBackend((row, attempt) => ({ reward: attempt, calls: row + 1 }))
  const seen: string[] = []
  let committing = false
  scripted.onPhase = (phase) => {
    if (committing) seen.push(`${phase} during a commit`)
  }
  await using explorer = await startExplorer({
    onCommit: async (calls) => {
      committing = true
      seen.push(`${scripted.running} running, ${groupsOf(calls).join()}`)
      // Time for rollouts that would start without waiting for the commit.
      await new Promise((resolve) => setTimeout(resolve, 50))
      committing = false
    },
  })
  const dataset = rowsOf(3)
  const { lines } = await train(explorer, { scripted, dataset, groupsPerCommit: 2, epochs: 2 })
  expect(seen).toEqual(['0 running, 0-0,0-1', '0 running, 0-2,1-0', '0 running, 1-1,1-2'])
  const commits = lines.filter(({ message }) => message === 'groups were committed')
  expect(commits.map(({ fields }) => fields)).toEqual([
    { groups: 2, attempts: 6, calls: 9, committed: 2, of: 6 },
    { groups: 2, attempts: 6, calls: 12, committed: 4, of: 6 },
    { groups: 2, attempts: 6, calls: 15, committed: 6, of: 6 },
  ])
})

test('outcomes are pending until their batch is committed', async () => {
  let figures: WorkerSummary | undefined
  const seen: unknown[] = []
  const look = (): void => {
    const { acknowledged, pending, undelivered } = figures ?? {}
    seen.push({ acknowledged, pending, undelivered })
  }
  await using explorer = await startExplorer({ onCommit: async () => look() })
  const onStart = (live: WorkerSummary): void => {
    figures = live
  }
  await train(explorer, { dataset: rowsOf(4), groupsPerCommit: 2, onStart })
  look()
  expect(seen).toEqual([
    { acknowledged: 0, pending: 6, undelivered: 0 },
    { acknowledged: 6, pending: 6, undelivered: 0 },
    { acknowledged: 12, pending: 0, undelivered: 0 },
  ])
})

test('a last batch that is smaller is committed as well', async () => {
  await using explorer = await startExplorer()
  await train(explorer, { dataset: rowsOf(5), groupsPerCommit: 3 })
  expect(explorer.commits().map((calls) => groupsOf(calls).length)).toEqual([3, 2])
})

test('holds the calls of rollouts while new weights are loaded, and loses nothing', async () => {
  await using explorer = await startExplorer()
  const scripted = scriptedBackend(() => ({}))
  let asked = 0
  scripted.onPhase = (phase) => {
    if (phase !== 'asked' || (asked += 1) !== 4) return
    explorer.pause()
    setTimeout(() => explorer.resume(), 200)
  }
  const { summary } = await train(explorer, { scripted })
  expect(summary.ends.rewarded).toBe(12)
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
})

test('while one request in ten fails, before or after its effect, each rollout is reported once, as it was graded', async () => {
  await using explorer = await startExplorer({ faults: randomFaults(0.1, 7) })
  const scripts = (row: number, attempt: number): Script => ({ reward: row + attempt / 10 })
  const dataset = rowsOf(24)
  const { scripted, summary } = await train(explorer, { scripts, dataset, groupsPerCommit: 6 })
  const { rewarded, failed } = summary.ends
  expect(rewarded + failed).toBe(72)
  expect(summary.undelivered).toBe(0)
  expect(scripted.graded).toHaveLength(rewarded)
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
  expect(explorer.waiting()).toEqual([])
  // Lost answers were requested again; the calls recorded for the lost ones have no reward.
  expect(explorer.unrewarded().length).toBeGreaterThan(0)
  expect(explorer.commits().map((calls) => groupsOf(calls).length)).toEqual([6, 6, 6, 6])
})

test('retries wait for an explorer that is unreachable, so that no attempt is lost', async () => {
  let asked = 0
  let looks = 0
  const isUnreachable = (): boolean => asked >= 5 && looks < 3
  await using explorer = await startExplorer({
    faults: ({ path: route }) => {
      if (route === '/v1/chat/completions') asked += 1
      if (!isUnreachable()) return undefined
      if (route === '/v1/models') looks += 1
      return 503
    },
  })
  const { scripted, summary } = await train(explorer)
  expect(looks).toBeGreaterThanOrEqual(3)
  expect(summary.retried).toBeGreaterThan(0)
  expect(summary.ends).toEqual({ rewarded: 12, removed: 0, failed: 0, cancelled: 0 })
  expect(trainedAs(explorer.trained())).toEqual(earned(scripted.graded))
})

test('a refused reward loses only its own calls, which is logged', async () => {
  let rewards = 0
  await using explorer = await startExplorer({
    faults: ({ path: route }) => (route === '/feedback' && (rewards += 1) === 3 ? 422 : undefined),
  })
  const { lines } = await train(explorer)
  expect(explorer.trained()).toHaveLength(24 - 2)
  expect(lines.filter(({ level }) => level === 'error')).toMatchObject([
    {
      message: 'the Trinity explorer refused a reward: these calls are not trained',
      fields: { calls: 2 },
    },
  ])
})

test('logs an error when answers of the model have no id', async () => {
  await using explorer = await startExplorer({
    model: (body) => tokenAnswer(body, { content: 'ok' }, ''),
  })
  const { lines } = await train(explorer, { dataset: rowsOf(1), attempts: 1 })
  expect(explorer.trained()).toEqual([])
  expect(lines.filter(({ level }) => level === 'error')).toEqual([
    {
      level: 'error',
      message: 'answers of the model have no id: they cannot be rewarded',
      fields: { rollout_id: 'run-0-0-1', calls: 2 },
    },
  ])
})

test('logs an error when the calls of a rewarded rollout are not those of its sample', async () => {
  class AsksForAnother extends AgentWorkflow {
    async run({ prompt }: AgentWorkflowContext): Promise<unknown> {
      const messages = [...prompt]
      await requireRolloutContext('AsksForAnother').policy('another').complete({ messages })
      return [...messages, { role: 'assistant', content: 'ok' }]
    }
  }
  class Gives1 extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      ctx.setReward(1)
    }
  }
  await using explorer = await startExplorer()
  const lines: LogLine[] = []
  const logger = recordingLogger(lines)
  const dataset = rowsOf(1)
  await using link = trinity({
    url: explorer.url,
    dataset,
    attempts: 1,
    groupsPerCommit: 1,
    runName: 'run',
    logger,
  })
  const backend = new LocalBackend({ workflow: AsksForAnother, grader: Gives1 })
  const { ends } = await runTrainerWorker({ backend, link, concurrency: 1, logger })
  expect(ends.rewarded).toBe(1)
  expect(explorer.trained()).toEqual([])
  expect(lines.filter(({ level }) => level === 'error')).toEqual([
    {
      level: 'error',
      message: 'a rewarded rollout has no model calls in its samples: nothing of it is trained',
      fields: { rollout_id: 'run-0-0-1', samples: ['sample'] },
    },
  ])
})

test('logs an error when the model gives several answers the same id, and trains none of them', async () => {
  let count = 0
  const explorer = await FakeTrinity.start({
    model: (body) =>
      tokenAnswer(body, { content: 'ok' }, (count += 1) <= 3 ? 'same' : `id-${count}`),
  })
  await using _ = explorer
  const { lines, scripted } = await train(explorer)
  const errors = lines.filter(({ level }) => level === 'error')
  expect(errors.map(({ message, fields }) => [message, fields])).toEqual([
    [
      'the model gave several answers the same id: Trinity cannot distinguish these calls, and none of them is trained',
      { calls: 1, such_as: 'same' },
    ],
  ])
  expect(scripted.graded).toHaveLength(12)
  expect(explorer.trained()).toHaveLength(24 - 3)
})

test('an id that is repeated in a later batch is not trained, which is logged', async () => {
  let count = 0
  await using explorer = await startExplorer({
    model: (body) => tokenAnswer(body, { content: 'ok' }, `id-${(count += 1) % 12}`),
  })
  const { lines } = await train(explorer)
  expect(explorer.trained()).toHaveLength(12)
  const errors = lines.filter(({ level }) => level === 'error')
  expect(errors.map(({ fields }) => fields['calls'])).toEqual([12])
})

test('refuses a model server that is not an explorer, before any rollout', async () => {
  await using explorer = await startExplorer({
    faults: ({ path }) => (path === '/feedback' ? 404 : undefined),
  })
  const scripted = scriptedBackend(() => ({}))
  await expect(train(explorer, { scripted })).rejects.toMatchObject({
    code: 'protocol_error',
    message: `${explorer.url} is not the explorer of Trinity-RFT in serve mode: it has no /feedback.`,
  })
  expect(explorer.unrewarded()).toEqual([])
})

test('refuses to run less than a group at a time', async () => {
  await using explorer = await startExplorer()
  await expect(train(explorer, { attempts: 8, concurrency: 7 })).rejects.toMatchObject({
    code: 'invalid_config',
    message:
      'A group of 8 attempts has to be run concurrently, and the worker runs 7: raise its concurrency to 8 or more.',
  })
})

test('refuses a second worker for the same explorer, until the first one has ended', async () => {
  await using explorer = await startExplorer()
  const scripted = scriptedBackend(() => ({}))
  let second: Promise<unknown> | undefined
  scripted.onPhase = () => {
    second ??= train(explorer).catch((error: unknown) => error)
  }
  await train(explorer, { scripted })
  expect(await second).toMatchObject({
    code: 'invalid_config',
    message: `Another worker of this machine trains with the explorer at ${explorer.url}, and its commits would take half of our groups. Stop one of them.`,
  })
  await train(explorer)
})

test.each([
  { attempts: 0 },
  { groupsPerCommit: 1.5 },
  { epochs: 0 },
  { dataset: [] },
  { url: 'explorer' },
])('refuses %o', (wrong) => {
  const options = { url: 'http://127.0.0.1:1', dataset: rowsOf(1), attempts: 1, groupsPerCommit: 1 }
  expect(() => trinity({ ...options, ...wrong })).toThrow(
    expect.objectContaining({ code: 'invalid_config' }),
  )
})

function groupsOf(calls: readonly TrinityCall[]): string[] {
  return [...new Set(calls.map(({ group }) => group))].toSorted((a, b) => a.localeCompare(b))
}
