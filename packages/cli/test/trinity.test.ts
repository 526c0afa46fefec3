import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { FakeTrinity, type FakeTrinityOptions } from '../../../test/kit/trainers/index.ts'
import { temporaryFolder, tokenAnswer } from '../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

import { inWorkspace, start, type StartedCommand } from './in-process.ts'

const echo = 'rollouts/echo/main.ts'

async function explorer(options: Partial<FakeTrinityOptions> = {}): Promise<FakeTrinity> {
  const fake = await FakeTrinity.start({
    model: (body) => tokenAnswer(body, { content: 'hello' }),
    ...options,
  })
  onTestFinished(async () => fake.close())
  return fake
}

/** Every second row asks for what the model does not say. */
async function datasetOf(rows: number, format: 'jsonl' | 'csv' = 'jsonl'): Promise<string> {
  const file = path.join(await temporaryFolder(), `rows.${format}`)
  const labels = Array.from({ length: rows }, (_, row) => (row % 2 === 0 ? 'hello' : 'goodbye'))
  const lines =
    format === 'csv'
      ? ['user_prompt,ground_truth', ...labels.map((label) => `say it,${label}`)]
      : labels.map((label) => JSON.stringify({ user_prompt: 'say it', ground_truth: label }))
  await writeFile(file, `${lines.join('\n')}\n`)
  return file
}

inWorkspace()

function startWorker(fake: FakeTrinity, dataset: string, ...flags: string[]): StartedCommand {
  const batch = ['--attempts', '4', '--groups-per-commit', '2']
  return start(['worker', echo, '--trinity', fake.url, '--dataset', dataset, ...batch, ...flags])
}

/** Rewards of the groups, by their `task_id`. */
function rewardsOf(fake: FakeTrinity): Record<string, number[]> {
  const groups = Map.groupBy(fake.trained(), ({ group }) => group)
  return Object.fromEntries(
    [...groups].map(([group, calls]) => [group, calls.map((call) => call.reward)]),
  )
}

it.each([
  { format: 'jsonl', where: 'in its process', flags: ['--concurrency', '2'] },
  {
    format: 'csv',
    where: 'in a process of their own',
    flags: ['--concurrency', '2', '--workers', '1'],
  },
] as const)(
  'trains over a .$format file with rollouts $where, and ends when all is committed',
  async ({ format, flags }) => {
    const fake = await explorer()
    const worker = startWorker(fake, await datasetOf(3, format), '--epochs', '2', ...flags)
    const { code, stdout, stderr } = await worker.finished
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: `Running EchoWorkflow of ${echo} (EchoGrader), 2 at a time\nTaking rollouts from Trinity at ${fake.url}\n`,
    })
    expect(rewardsOf(fake)).toEqual({
      '0-0': [1, 1, 1, 1],
      '0-1': [0, 0, 0, 0],
      '0-2': [1, 1, 1, 1],
      '1-0': [1, 1, 1, 1],
      '1-1': [0, 0, 0, 0],
      '1-2': [1, 1, 1, 1],
    })
    expect(fake.commits().map((calls) => calls.length)).toEqual([8, 8, 8])
    expect(stderr).toContain('"rewarded":24')
    expect(stderr).toContain('"committed":6,"of":6')
  },
)

it('ends with the exit code 0 when it is told to, and the next start resumes at the next row', async () => {
  let worker: StartedCommand | undefined
  let asked = 0
  const fake = await explorer({
    faults: ({ path: route }) => {
      // In the middle of the second batch.
      if (route === '/v1/chat/completions' && (asked += 1) === 11) {
        fake.pause()
        void worker?.end()
      }
      return undefined
    },
  })
  const dataset = await datasetOf(5)
  const journal = path.join(await temporaryFolder(), 'run.jsonl')
  worker = startWorker(fake, dataset, '--journal', journal, '--drain-timeout', '0')
  expect((await worker.finished).code).toBe(0)
  expect(Object.keys(rewardsOf(fake))).toEqual(['0-0', '0-1'])
  expect(fake.waiting()).toEqual([])

  fake.resume()
  worker = undefined
  const next = await startWorker(fake, dataset, '--journal', journal).finished
  expect(next.code).toBe(0)
  expect(next.stderr).toContain('"committed":2,"of":5,"msg":"resuming where the last start ended"')
  expect(rewardsOf(fake)).toEqual({
    '0-0': [1, 1, 1, 1],
    '0-1': [0, 0, 0, 0],
    '0-2': [1, 1, 1, 1],
    '0-3': [0, 0, 0, 0],
    '0-4': [1, 1, 1, 1],
  })
  const runs = fake.trained().map(({ group, run }) => `${group} ${run}`)
  expect(new Set(runs).size).toBe(20)
})

it('ends with one line without an explorer at that URL', async () => {
  const fake = await explorer({
    faults: ({ path: route }) => (route === '/feedback' ? 404 : undefined),
  })
  const { code, stderr } = await startWorker(fake, await datasetOf(1), '--log-level', 'error')
    .finished
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `error: ${fake.url} is not the explorer of Trinity-RFT in serve mode: it has no /feedback.\n`,
  })
})
