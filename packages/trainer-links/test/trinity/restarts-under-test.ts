import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import type { FakeTrinity, TrinityCall } from '../../../../test/kit/trainers/index.ts'
import { temporaryFolder } from '../../../../test/kit/index.ts'
import { expect } from 'vitest'

import { startExplorer, type Script, type Scripts } from './scripted-attempts.ts'

export const byPlace: Scripts = (row, attempt): Script => ({ reward: row + attempt / 10 })

export async function newJournal(): Promise<string> {
  return path.join(await temporaryFolder(), 'folder', 'run.jsonl')
}

const program = new URL('killed-worker.ts', import.meta.url)

/** The environment of `killed-worker.ts`. */
function environmentOf({ url }: FakeTrinity, journal: string): NodeJS.ProcessEnv {
  return { ...process.env, EXPLORER: url, JOURNAL: journal }
}

/** Every attempt was trained in one rollout, with the reward of its place, and each group in one commit. */
export function expectExactly(
  explorer: FakeTrinity,
  rows: number,
  attempts: number,
  calls = 2,
): void {
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
export async function trainUntilDone(
  isDeadly: (route: string, n: number) => boolean,
): Promise<unknown[]> {
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
