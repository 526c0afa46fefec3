import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { readResults } from './in-process.ts'
import { lives, startOsmosis, type Finished, type RunningCommand } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

/** A workflow that notes the process of each rollout, and works unless it is to hurry. */
const main = (work: string): string => `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { EchoWorkflow as Echo } from '../echo/main.ts'
export { EchoGrader } from '../echo/main.ts'
export class NotingWorkflow extends Echo {
  override async run(ctx) {
    appendFileSync('pids', process.pid + ' ' + process.ppid + '\\n')
    if (!existsSync('hurry')) {
      ${work}
    }
    await super.run(ctx)
  }
}
`
// Its event loop stands still as if it computed, but the processor is left to other tests.
const computing = main('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)')
const waiting = main('await sleep(400)')

// Four in flight: 32 seconds, whether each takes the thread for 100 ms or waits for 400.
const attempts = 80
const items = 4 * attempts

class NotedRun {
  readonly root: string
  readonly command: RunningCommand

  /** @param flags - more words of the command line, with spaces between them */
  constructor(source: string | NotedRun, flags = '') {
    const isNew = typeof source === 'string'
    this.root = isNew ? temporaryWorkspace({ 'rollouts/noting/main.ts': source }) : source.root
    const what = '-m rollouts/noting/main.ts -d data/words.jsonl --policy policies/echo.ts'
    const words = `eval run ${what} --n ${attempts} --yes --output out --name r ${flags}`
    this.command = startOsmosis(words.trim().split(' '), {}, this.root)
  }

  /** The process of each rollout and the one that started that, in the order in which they began. */
  get noted(): number[][] {
    const file = path.join(this.root, 'pids')
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []
    return lines.map((line) => line.split(' ').map(Number))
  }

  get pids(): number[] {
    return this.noted.map(([pid = 0]) => pid)
  }

  /** What the first rollout noted that was not in the first process. */
  get inWorker(): number[] | undefined {
    return this.noted.find(([pid]) => pid !== this.pids[0])
  }

  /** Nothing works any more. */
  hurry(): void {
    writeFileSync(path.join(this.root, 'hurry'), '')
  }
}

/** Waits for the end, at which each item has ended once, with the reward that its row gets. */
async function completed({ command, root }: NotedRun): Promise<Finished> {
  const finished = await command.finished
  const folder = path.join(root, 'out/r')
  const { records, run } = readResults(folder)
  const journal = readFileSync(path.join(folder, 'events.jsonl'), 'utf8').trimEnd().split('\n')
  expect([finished.code, run['status'], records.length, journal.length]).toEqual([
    0,
    'finished',
    items,
    items,
  ])
  const ended = records.map((record) => [
    record['source_row_index'],
    record['run_index'],
    record['reward'],
  ])
  const expected = Array.from({ length: items }, (_, item) => {
    const row = Math.floor(item / attempts)
    return [row, item % attempts, row === 2 ? 0 : 1]
  })
  expect(new Set(ended.map(String))).toEqual(new Set(expected.map(String)))
  return finished
}

const spread =
  /The workflow keeps its thread busy: the rollouts to come run in (\d+) worker processes\. --workers 0 keeps them in one\./

const advice = /--workers auto runs/

describe.skipIf(availableParallelism() === 1)('osmosis eval run without --workers', () => {
  it('runs the rest in workers when the workflow keeps its thread busy, and each item once', async () => {
    const run = new NotedRun(computing)
    await expect.poll(() => new Set(run.pids).size).toBeGreaterThan(1)
    const beforehand = run.pids.length
    run.hurry()
    const { stderr } = await completed(run)
    const [first = 0, ...others] = new Set(run.pids)
    expect(others).toHaveLength(Math.min(availableParallelism(), 4))
    const said = stderr.split('\n').flatMap((line) => spread.exec(line)?.[1] ?? [])
    expect(said).toEqual([String(others.length)])
    expect(run.pids).toHaveLength(items)
    expect(beforehand).toBeGreaterThan(10)
    // Those under way end where they began.
    const late = run.pids.slice(beforehand).filter((pid) => pid === first)
    expect(late.length).toBeLessThanOrEqual(4)
    expect(stderr).not.toMatch(advice)
  })

  it('stays in one process when the workflow waits, a grader has few slots, or flags say so', async () => {
    const fewSlots = `import { defineGraderConfig } from '@osmosis/core'
export const one = defineGraderConfig({ name: 'one', concurrency: { maxConcurrent: 1 } })
`
    const runs = [
      new NotedRun(waiting),
      new NotedRun(`${computing}${fewSlots}`),
      new NotedRun(computing, '--workers 0'),
    ]
    const ended = runs.map(async (run) => {
      await expect.poll(() => run.pids.length).toBeGreaterThan(64)
      run.hurry()
      const { stderr } = await completed(run)
      expect(stderr).not.toMatch(spread)
      expect(new Set(run.pids).size).toBe(1)
    })
    await Promise.all(ended)
  })

  it.each([
    { what: 'Ctrl-C', pidOf: ({ command }: NotedRun) => command.child.pid, code: 130 },
    { what: 'the end of their server', pidOf: ({ inWorker }: NotedRun) => inWorker?.[1], code: 1 },
  ])('ends its workers at $what, and goes on later with what had not ended', async (stop) => {
    const run = new NotedRun(computing, '--quiet')
    await expect.poll(() => run.inWorker).toBeDefined()
    process.kill(stop.pidOf(run) ?? 0, stop.code === 130 ? 'SIGINT' : 'SIGKILL')
    const { code, stderr } = await run.command.finished
    expect([code, stderr]).toEqual([stop.code, expect.not.stringMatching(spread)])
    const before = new Set(run.pids)
    await expect.poll(() => [...before].filter(lives)).toEqual([])
    run.hurry()
    await completed(new NotedRun(run))
    expect(new Set(run.pids).size).toBe(before.size + 1)
  })

  it('goes on in one process when workers cannot run the same code', async () => {
    const locked = new NotedRun(
      `${computing}if (existsSync('pids')) throw new Error('one copy of it at a time')\n`,
    )
    const edited = new NotedRun(computing)
    await edited.command.printed(/In flight/)
    appendFileSync(path.join(edited.root, 'rollouts/noting/main.ts'), '// edited meanwhile\n')
    await Promise.all([
      locked.command.printed(/goes on in one process: workers cannot be started\./),
      edited.command.printed(/files have changed: all rollouts of this run stay in one process\./),
    ])
    for (const run of [locked, edited]) run.hurry()
    const [ofLocked, ofEdited] = await Promise.all([completed(locked), completed(edited)])
    expect(ofLocked.stderr).toContain('one copy of it at a time')
    expect(ofLocked.stderr + ofEdited.stderr).not.toMatch(advice)
    expect([new Set(locked.pids).size, new Set(edited.pids).size]).toEqual([1, 1])
  })
})
