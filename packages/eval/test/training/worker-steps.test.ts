import { cp, rm } from 'node:fs/promises'
import path from 'node:path'

import { requireRolloutContext } from '@osmosis/core'
import {
  openRun,
  readTrainingJournal,
  trainingJournalFile,
  trainingRuns,
  WorkerRecord,
} from '@osmosis/eval'
import type { StepRecord } from '@osmosis/eval/analysis'
import { LocalBackend, runToEnd, withStages } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { grader, request, workflow } from '../../../../test/kit/executed-rollouts.ts'
import {
  chunk,
  eventStream,
  sendStream,
  startPolicyEndpoint,
  temporaryFolder,
} from '../../../../test/kit/index.ts'

/** A rollout that another trainer asks for. */
interface Task {
  readonly version: number
  readonly reward: number
  readonly prompt?: string
  readonly label?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** Opens the record of a folder, which adds to these problems. */
function opened(folder: string, problems: string[]): Promise<WorkerRecord> {
  return WorkerRecord.open({
    folder,
    trainer: 'another trainer',
    rollout: 'rollout',
    onProblem: (problem) => void problems.push(problem),
  })
}

/** Runs these rollouts, one after the other. */
async function runTasks(record: WorkerRecord, tasks: readonly Task[]): Promise<void> {
  let version = 0
  const policy = await startPolicyEndpoint((response) => {
    const model = `policy-${version}`
    const said = { ...chunk({ role: 'assistant', content: 'yes' }), model }
    sendStream(response, eventStream(said, { ...chunk({}, 'stop'), model }))
  })
  let reward = 0
  const backend = withStages(
    new LocalBackend({
      workflow: workflow(async ({ prompt }) => {
        const client = requireRolloutContext('The agent').registerPolicySample('main')
        await client.complete({ messages: [...prompt] })
      }),
      grader: grader((ctx) => ctx.setReward(reward)),
    }),
    record.recorded,
  )
  for (const [at, { prompt = 'hi', label = '4', metadata = null, ...task }] of tasks.entries()) {
    version = task.version
    reward = task.reward
    const initialMessages = [{ role: 'user' as const, content: prompt }]
    const ids = { rolloutId: `r${task.version}-${at}`, chatCompletionsUrl: policy.url }
    await runToEnd(backend, request({ ...ids, initialMessages, label, metadata }))
  }
}

function stepsOf(folder: string): readonly StepRecord[] {
  const steps = readTrainingJournal(folder).filter((one) => one.kind === 'step')
  // A later record of a step replaces it.
  return [...new Map(steps.map((step) => [step.step, step])).values()]
}

/** Records these rollouts, and returns the steps of the journal. */
async function recorded(folder: string, tasks: readonly Task[]): Promise<readonly StepRecord[]> {
  const problems: string[] = []
  const record = await opened(folder, problems)
  await runTasks(record, tasks)
  await record.close()
  expect(problems).toEqual([])
  return stepsOf(folder)
}

it('attempts with the same prompt and label are attempts at one row, whatever else is sent', async () => {
  const folder = await temporaryFolder()
  const tasks: readonly Omit<Task, 'version' | 'reward'>[] = [
    { prompt: 'a', label: '1' },
    { prompt: 'a', label: '1', metadata: { attempt: 2 } },
    { prompt: 'b', label: '1' },
    { prompt: 'a', label: '2' },
    { prompt: 'a', label: '1' },
    { prompt: 'b', label: '1', metadata: { attempt: 2 } },
  ]
  const all = tasks.map((task, at) => ({ ...task, version: 7, reward: at % 2 }))
  const [step, ...others] = await recorded(folder, all)
  expect(others).toEqual([])
  // The rewards are 0, 1, 0 at the first row; 0 and 1 at the second; 1 at the third.
  expect(step).toMatchObject({
    step: 1,
    version: 1,
    sampledBy: 0,
    rows: [0, 1, 2],
    settledRows: [2],
  })
  const { events } = await openRun(path.join(trainingRuns(folder), 'step-0001'))
  const places = [...events.values()].map((event) => [
    event.source_row_index,
    event.run_index,
    event.reward,
  ])
  expect(places).toEqual([
    [0, 0, 0],
    [0, 1, 1],
    [1, 0, 0],
    [2, 0, 1],
    [0, 2, 0],
    [1, 1, 1],
  ])
})

it('each version is a step that knows the steps before it, also those of an earlier process', async () => {
  const folder = await temporaryFolder()
  const rewards = [0.8, 0.9, 0.8, 0.9, 0.2, 0.1, 0.1, 0.1]
  const tasksOf = (version: number): Task[] =>
    [0, 1, 2, 3].map((attempt) => ({
      version,
      reward: (rewards[version] ?? 0) + (attempt % 2 === 0 ? 0.05 : -0.05),
      // The first process asks for one row first, and the second one for the other.
      prompt: attempt < 2 === version < 5 ? 'a' : 'b',
    }))
  await recorded(folder, [0, 1, 2, 3, 4].flatMap(tasksOf))
  const steps = await recorded(folder, [5, 6, 7].flatMap(tasksOf))
  expect(steps.map(({ step, version, sampledBy, run }) => [step, version, sampledBy, run])).toEqual(
    rewards.map((_, at) => [at + 1, at + 1, at, `step-000${at + 1}`]),
  )
  const keys: unknown[] = []
  for (const [at, { run, rollouts, rows, batch }] of steps.entries()) {
    const { manifest } = await openRun(path.join(trainingRuns(folder), run))
    const own = manifest.rows.toSorted((a, b) => a.source_row - b.source_row)
    keys.push(own.map(({ key }) => key))
    expect(rollouts.reward).toBeCloseTo(rewards[at] ?? 0, 9)
    expect(rows.toSorted((a, b) => a - b)).toEqual([0, 1])
    expect(batch).toMatchObject({ groups: 2, groupsWithSignal: 2 })
  }
  // A prompt is the same row in all of them.
  expect(keys).toEqual(steps.map(() => keys[0]))
  const collapsed = steps.filter(({ alarms }) => alarms.some((text) => text.includes('collapses')))
  expect(collapsed.map(({ step }) => step)).toEqual([6, 7, 8])
})

it('rollouts are stored while the journal cannot be written, and the next process records their steps', async () => {
  const folder = await temporaryFolder()
  const problems: string[] = []
  const interrupted = await opened(folder, problems)
  await rm(trainingJournalFile(folder))
  const versions = [0, 1, 1, 2, 3, 4, 0, 1]
  await runTasks(
    interrupted,
    versions.map((version) => ({ version, reward: 1 })),
  )
  await expect(interrupted.close()).rejects.toMatchObject({ code: 'storage_error' })
  expect(problems).toEqual([expect.stringContaining('was removed')])

  await recorded(folder, [])
  const steps = stepsOf(folder).toSorted((a, b) => a.step - b.step)
  expect(steps.map(({ step, rollouts }) => [step, rollouts.rollouts])).toEqual([
    [1, 2],
    [2, 3],
    [3, 1],
    [4, 1],
    [5, 1],
  ])
})

it('a step that is missing does not make another version one with a later step', async () => {
  const folder = await temporaryFolder()
  const tasks = [0, 1, 2].map((version) => ({ version, reward: 1 }))
  await recorded(folder, tasks)
  await rm(path.join(trainingRuns(folder), 'step-0002'), { recursive: true })
  await recorded(folder, [{ version: 3, reward: 1 }])
  const third = await openRun(path.join(trainingRuns(folder), 'step-0003'))
  const fourth = await openRun(path.join(trainingRuns(folder), 'step-0004'))
  expect(third.sortedEvents.map(({ versions }) => versions)).toEqual([['policy-2']])
  expect(fourth.sortedEvents.map(({ versions }) => versions)).toEqual([['policy-3']])
})

it('a step that is missing does not make another row one of a later step', async () => {
  const folder = await temporaryFolder()
  await recorded(folder, [
    { prompt: 'a', version: 0, reward: 1 },
    { prompt: 'b', version: 1, reward: 1 },
  ])
  await rm(path.join(trainingRuns(folder), 'step-0001'), { recursive: true })
  await recorded(folder, [{ prompt: 'c', version: 1, reward: 0 }])
  const { manifest } = await openRun(path.join(trainingRuns(folder), 'step-0002'))
  expect(manifest.rows.map(({ source_row: row }) => row)).toEqual([1, 2])
})

it('a copy of a run beside it is no step', async () => {
  const folder = await temporaryFolder()
  await recorded(folder, [{ version: 0, reward: 1 }])
  const run = path.join(trainingRuns(folder), 'step-0001')
  await cp(run, `${run}-copy`, { recursive: true })
  const steps = await recorded(
    folder,
    [0, 1].map((version) => ({ version, reward: 1 })),
  )
  expect(steps.map((step) => [step.run, step.rollouts.rollouts])).toEqual([
    ['step-0001', 2],
    ['step-0002', 1],
  ])
})
