import path from 'node:path'
import { readFile, writeFile } from 'node:fs/promises'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { runTrainerWorker, trinity } from '@osmosis/trainer-links'
import { expect, test } from 'vitest'

import { HttpPeer, temporaryFolder } from '../../../../test/kit/index.ts'
import {
  rowsOf,
  scriptedBackend,
  startExplorer,
  train,
  type Script,
  type Scripts,
} from './scripted-attempts.ts'
import type { FakeTrinity, TrinityCall } from '../../../../test/kit/trainers/index.ts'

function groupOf(line: string): number | undefined {
  return (JSON.parse(line) as { group?: number }).group
}

type Phase = 'looking for the model' | 'asking' | 'asked' | 'grading' | 'rewarding' | 'committing'

test.each<[Phase]>([
  ['looking for the model'],
  ['asking'],
  ['asked'],
  ['grading'],
  ['rewarding'],
  ['committing'],
])(
  'a worker that is ended while %s leaves nothing open, and the next one continues',
  async (phase) => {
    const ending = new AbortController()
    let rewards = 0
    const isReached = (now: Phase): boolean => {
      if (now === phase) ending.abort()
      return now === phase
    }
    await using explorer = await startExplorer({
      faults: ({ path: route }) => {
        if (route === '/v1/models' && !ending.signal.aborted && isReached('looking for the model'))
          return 503
        // The first one asks whether this is an explorer; the fourth is in the middle of a batch.
        if (route === '/feedback' && (rewards += 1) === 4) isReached('rewarding')
        return undefined
      },
      onCommit: () => void isReached('committing'),
    })
    const journalFile = await newJournal()
    const first = scriptedBackend(byPlace)
    let graded = 0
    first.onPhase = (now) => {
      if (now === 'workflow' && phase === 'asking') explorer.pause()
      if (now === 'workflow') isReached('asking')
      if (now === 'asked') isReached('asked')
      if (now === 'grader' && (graded += 1) === 2) isReached('grading')
    }
    const signal = ending.signal
    const ended = await train(explorer, { scripted: first, journalFile, signal, drainSeconds: 0 })
    expect(signal.aborted).toBe(true)
    expect(first.running).toBe(0)
    const committed = ['rewarding', 'committing'].includes(phase) ? 1 : 0
    expect(explorer.commits()).toHaveLength(committed)
    expect(explorer.waiting()).toEqual([])
    expect(ended.summary.undelivered).toBe(0)

    explorer.resume()
    const { scripted } = await train(explorer, { scripts: byPlace, journalFile })
    expectExactly(explorer, 4, 3)
    expect(scripted.graded).toHaveLength(12 - committed * 6)
  },
)

test('rollouts that end within the drain time are stored, and their batch is committed', async () => {
  const ending = new AbortController()
  await using explorer = await startExplorer()
  const scripted = scriptedBackend(byPlace)
  scripted.onPhase = (phase) => {
    if (phase === 'asked') ending.abort()
  }
  const { summary } = await train(explorer, { scripted, signal: ending.signal, drainSeconds: 30 })
  expect(summary.ends).toEqual({ rewarded: 6, removed: 0, failed: 0, cancelled: 0 })
  expectExactly(explorer, 2, 3)
})

test('a worker that is killed at its commit trains each attempt once, with its reward', async () => {
  const exits = await trainUntilDone((route, n) => route === '/commit' && n === 1)
  expect(exits).toEqual(['SIGKILL', 0])
})

test('a commit that is refused ends the worker, and the next one commits the same', async () => {
  let refusals = 0
  await using explorer = await startExplorer({
    faults: ({ path: route }) => (route === '/commit' && (refusals += 1) === 1 ? 404 : undefined),
  })
  const journalFile = await newJournal()
  await expect(train(explorer, { scripts: byPlace, journalFile })).rejects.toMatchObject({
    code: 'protocol_error',
    message: `${explorer.url} is not the explorer of Trinity-RFT in serve mode: it has no /commit.`,
  })
  expect(explorer.trained()).toEqual([])
  const { scripted } = await train(explorer, { scripts: byPlace, journalFile })
  expect(scripted.graded).toHaveLength(6)
  expectExactly(explorer, 4, 3)
})

test('a worker ends at once while the explorer does not answer', async () => {
  class Silent extends HttpPeer {
    protected receive(): void {
      this.wake()
    }
  }
  const ending = new AbortController()
  await using silent = await new Silent().start()
  const { signal } = ending
  await using link = trinity({
    url: silent.url,
    dataset: rowsOf(1),
    attempts: 1,
    groupsPerCommit: 1,
  })
  const { backend } = scriptedBackend(byPlace)
  const ended = runTrainerWorker({ backend, link, concurrency: 1, signal })
  await silent.until(() => silent.received > 0)
  ending.abort()
  expect((await ended).ends.rewarded).toBe(0)
})

test('the next start continues after the last complete line, wherever a kill has cut the journal', async () => {
  await using explorer = await startExplorer()
  const journalFile = await newJournal()
  const options = { dataset: rowsOf(4), attempts: 2, groupsPerCommit: 2 }
  const settings = { ...options, journalFile, scripts: byPlace }
  await train(explorer, settings)
  const text = await readFile(journalFile, 'utf8')
  const trained = explorer.trained()
  expect(text.trimEnd().split('\n')).toHaveLength(1 + 4 + 2)

  const head = text.indexOf('\n') + 1
  const lineEnds = [...text.matchAll(/\n/g)].map(({ index }) => index)
  // In the middle of each line, and in front of and behind its end.
  const cuts = lineEnds.flatMap((end, line) => [end - 20, end, end + 1].slice(line === 0 ? 2 : 0))
  for (const bytes of cuts) {
    await writeFile(journalFile, text.slice(0, bytes))
    const ended = text.slice(head, bytes).split('\n').slice(0, -1).map(groupOf)
    const link = trinity({ url: explorer.url, journalFile, runName: 'other', ...options })
    const next = await link.claim(2, AbortSignal.timeout(60_000))
    await link[Symbol.asyncDispose]()
    const missing = [0, 1, 2, 3].find((group) => !ended.includes(group))
    const expected = missing === undefined ? undefined : `run.2-0-${missing}`
    expect(next?.[0]?.request.group?.id).toBe(expected)
  }
  expect(explorer.trained()).toEqual(trained)
})

test('a finished run stays finished, and continues for another epoch', async () => {
  await using explorer = await startExplorer()
  const journalFile = await newJournal()
  await train(explorer, { journalFile })
  const again = await train(explorer, { journalFile })
  expect(again.scripted.graded).toEqual([])
  expect(again.lines.find(({ level }) => level === 'warn')?.message).toBe(
    'all groups have been committed: delete the journal to train again',
  )
  const { scripted } = await train(explorer, { journalFile, epochs: 2 })
  expect(new Set(scripted.graded.map(({ group }) => group))).toEqual(
    new Set(['1-0', '1-1', '1-2', '1-3']),
  )
})

test('refuses the journal of a run over other rows, with other attempts, or that cannot be read', async () => {
  await using explorer = await startExplorer()
  const journalFile = await newJournal()
  await train(explorer, { journalFile })
  const refusal = async (options: Parameters<typeof train>[1]): Promise<unknown> =>
    train(explorer, { journalFile, ...options }).catch((error: unknown) => error)
  expect(await refusal({ dataset: rowsOf(5) })).toMatchObject({
    code: 'invalid_config',
    message: `The run that the journal ${journalFile} belongs to is over other rows (4; there are 5 now). Use the inputs that it was started with, or start a new run with another journal.`,
  })
  expect(await refusal({ attempts: 2 })).toMatchObject({
    message: expect.stringContaining('has 3 attempts of each row, not 2') as string,
  })
  await writeFile(journalFile, 'a note\n')
  expect(await refusal({})).toMatchObject({
    code: 'invalid_config',
    message: `${journalFile} is not a valid journal: line 1 is not JSON.`,
  })
  expect(await readFile(journalFile, 'utf8')).toBe('a note\n')
})

test('a journal that cannot be opened ends the worker with one clear line', async () => {
  await using explorer = await startExplorer()
  const folder = await temporaryFolder()
  await expect(train(explorer, { scripts: byPlace, journalFile: folder })).rejects.toMatchObject({
    code: 'storage_error',
    message: expect.stringContaining(`The journal ${folder} cannot be opened: EISDIR`) as string,
  })
})

test('refuses a journal that another worker writes to', async () => {
  await using explorer = await startExplorer()
  await using other = await startExplorer()
  const journalFile = await newJournal()
  const scripted = scriptedBackend(byPlace)
  let second: Promise<unknown> | undefined
  scripted.onPhase = () => {
    second ??= train(other, { journalFile }).catch((error: unknown) => error)
  }
  await train(explorer, { scripted, journalFile })
  expect(await second).toMatchObject({
    code: 'invalid_config',
    message: `Another worker writes to the journal ${journalFile}.`,
  })
})

const byPlace: Scripts = (row, attempt): Script => ({ reward: row + attempt / 10 })

async function newJournal(): Promise<string> {
  return path.join(await temporaryFolder(), 'folder', 'run.jsonl')
}

const program = new URL('killed-worker.ts', import.meta.url)

/** The environment of `killed-worker.ts`. */
function environmentOf({ url }: FakeTrinity, journal: string): NodeJS.ProcessEnv {
  return { ...process.env, EXPLORER: url, JOURNAL: journal }
}

/** Every attempt was trained in one rollout, with the reward of its place, and each group in one commit. */
function expectExactly(explorer: FakeTrinity, rows: number, attempts: number, calls = 2): void {
  const trained = explorer.trained()
  expect(new Set(trained.map(({ id }) => id)).size).toBe(trained.length)
  const places = Array.from({ length: rows * attempts }, (_, index) => {
    const [row, attempt] = [Math.floor(index / attempts), (index % attempts) + 1]
    return {
      group: `0-${row}`,
      run: attempt,
      rollouts: 1,
      rewards: Array.from({ length: calls }, () => row + attempt / 10),
    }
  })
  expect(placesOf(trained)).toEqual(places)
  for (const commit of explorer.commits()) {
    for (const group of new Set(commit.map((call) => call.group))) {
      expect(commit.filter((call) => call.group === group)).toHaveLength(attempts * calls)
    }
  }
}

function placesOf(trained: readonly TrinityCall[]): unknown[] {
  const places = Map.groupBy(trained, ({ group, run }) => `${group} ${run}`)
  return [...places.values()]
    .map((calls) => ({
      group: calls[0]?.group ?? '',
      run: calls[0]?.run ?? 0,
      rollouts: new Set(calls.map(({ rolloutId }) => rolloutId)).size,
      rewards: calls.map(({ reward }) => reward),
    }))
    .toSorted((a, b) => a.group.localeCompare(b.group) || a.run - b.run)
}

/** Runs workers, one after the other, until one finishes the training; resolves with how each ended. */
async function trainUntilDone(isDeadly: (route: string, n: number) => boolean): Promise<unknown[]> {
  const journal = await newJournal()
  let worker: ChildProcess | undefined
  const seen = new Map<string, number>()
  await using explorer = await startExplorer({
    faults: ({ path: route }) => {
      seen.set(route, (seen.get(route) ?? 0) + 1)
      if (isDeadly(route, seen.get(route) ?? 0)) worker?.kill('SIGKILL')
      return undefined
    },
  })
  const exits: unknown[] = []
  do {
    worker = spawn(process.execPath, [fileURLToPath(program)], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: environmentOf(explorer, journal),
    })
    exits.push((await once(worker, 'exit')).find((end) => end !== null))
  } while (exits.at(-1) === 'SIGKILL')
  expectExactly(explorer, 6, 4)
  return exits
}
