import { spawn, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { createRun, openRun } from '@osmosis/eval'

import { madeManifest } from '../../../../test/kit/made-runs.ts'

/** Items that a writer works on at once. */
export const inFlight = 16

/** What became of a run whose writers were killed. */
export interface CrashReport {
  kills: number
  /** Items that were started, those that were started again included. */
  started: number
  acknowledged: number
  /** Acknowledged, but not in the run afterwards. */
  lost: number
  /** Items with more than one line in the journal. */
  twice: number
  /** Events whose trajectory or graded sample cannot be read. */
  unreadable: number
  /** Events in the end. */
  events: number
}

/** Runs `items` items, two of each row, with writers that are killed at random moments. */
export async function crash(
  outputRoot: string,
  items: number,
  kills: number,
): Promise<CrashReport> {
  const rows = Array.from({ length: items / 2 }, (_, row) => ({ key: `${row}`, source_row: row }))
  const store = await createRun({ outputRoot, manifest: madeManifest({ n: 2, rows }) })
  await store.close()
  const { location } = store
  const started: string[] = []
  const acknowledged = new Set<string>()
  // So few that the last writer has something left to do.
  const most = Math.floor(items / (kills + 1))
  let lost = 0
  for (let kill = 0; kill <= kills; kill += 1) {
    const isLast = kill === kills
    const until = isLast ? Infinity : Math.floor(Math.random() * (most + 1)) - 1
    for (const line of await outputOf(writer(location, isLast ? Infinity : most), until)) {
      const [what = '', item = ''] = line.split(' ')
      if (what === 'start') started.push(item)
      if (what === 'ended') acknowledged.add(item)
    }
    const { events } = await openRun(location)
    lost += [...acknowledged].filter((item) => !events.has(item)).length
  }
  const reader = await openRun(location)
  let unreadable = 0
  for (const event of reader.sortedEvents) {
    const [said, saw] = [await reader.trajectories(event), await reader.graded(event)]
    if (said.state !== 'found' || saw.state !== 'found') unreadable += 1
  }
  const lines = (await readFile(path.join(location, 'events.jsonl'), 'utf8')).trimEnd().split('\n')
  return {
    kills,
    started: started.length,
    acknowledged: acknowledged.size,
    lost,
    twice: lines.length - reader.events.size,
    unreadable,
    events: reader.events.size,
  }
}

/** A process that writes to a run. */
export type Writer = ReturnType<typeof spawn>

/** Runs what is missing. */
export async function complete(location: string): Promise<void> {
  await outputOf(writer(location, Infinity), Infinity)
}

/** A process that runs what is missing, `most` items of it, and then waits for its end. */
export function writer(location: string, most: number): Writer {
  return spawn(process.execPath, [script, location, String(most), '8000'], { stdio })
}

const script = fileURLToPath(new URL('./crash-writer.ts', import.meta.url))
const stdio: StdioOptions = ['ignore', 'pipe', 'inherit']

/** The whole lines that it wrote until it ended, or was killed with more ended items than `until`. */
export async function outputOf(child: Writer, until: number): Promise<string[]> {
  let output = ''
  child.stdout?.on('data', (data: Buffer) => {
    output += data.toString()
    if (output.split('ended ').length > until + 1) child.kill('SIGKILL')
  })
  await once(child, 'close')
  return output.split('\n').slice(0, -1)
}
