import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** What became of a run that was killed again and again. */
export interface CrashFigures {
  readonly kills: number
  /** Items with a result. */
  readonly ended: number
  /** Rollouts whose workflow was started, over all starts. */
  readonly started: number
  /** Results that were in the journal before a kill and are not in it, or not the same, at the end. */
  readonly lost: number
  /** Items with more than one result. */
  readonly twice: number
  /** Of the last start. */
  readonly code: number | null
}

const workspace = path.join(import.meta.dirname, 'workspace')
const bin = path.resolve(import.meta.dirname, '../src/bin.ts')

/**
 * Runs `osmosis eval run` over a number of rows in a folder, kills it with SIGKILL each time when some more
 * items have ended, and lets the last start come to its end.
 */
export async function runThroughCrashes(
  folder: string,
  options: {
    readonly items: number
    readonly inFlight: number
    /** After how many more items each kill comes. */
    readonly kills: readonly number[]
  },
): Promise<CrashFigures> {
  const { items, inFlight, kills } = options
  mkdirSync(folder, { recursive: true })
  const dataset = path.join(folder, 'rows.jsonl')
  const rows = Array.from(
    { length: items },
    (_, index) => `{"user_prompt":"w${index}","ground_truth":"W${index}"}\n`,
  )
  writeFileSync(dataset, rows.join(''))
  const marks = path.join(folder, 'started')
  const journal = path.join(folder, 'r/events.jsonl')
  // What follows the last newline is half a line.
  const lines = (): string[] =>
    existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').slice(0, -1) : []
  const start = (): ReturnType<typeof spawn> =>
    spawn(
      process.execPath,
      [
        bin,
        ...`eval run -m rollouts/counted/main.ts -d ${dataset} --policy policies/echo.ts`.split(
          ' ',
        ),
        ...`--max-in-flight ${inFlight} --quiet --yes --output ${folder} --name r`.split(' '),
      ],
      { cwd: workspace, stdio: 'ignore', env: { ...process.env, STARTED_FILE: marks } },
    )

  const stored = new Set<string>()
  for (const more of kills) {
    const until = lines().length + more
    const command = start()
    const closed = once(command, 'close')
    while (command.exitCode === null && lines().length < until) await sleep(2)
    command.kill('SIGKILL')
    await closed
    for (const line of lines()) stored.add(line)
  }
  const last = start()
  await once(last, 'close')
  const ended = lines()
  const all = new Set(ended)
  const places = new Set(ended.map((line) => (JSON.parse(line) as { row_index: number }).row_index))
  return {
    kills: kills.length,
    ended: places.size,
    started: readFileSync(marks, 'utf8').length,
    lost: [...stored].filter((line) => !all.has(line)).length,
    twice: ended.length - places.size,
    code: last.exitCode,
  }
}
