// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { onlyIf } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { bin, osmosis, temporaryFolder, workspace } from './osmosis.ts'

// Files that cannot grow beyond a limit take a part of a write and refuse the rest, as a full disk does.
onlyIf(process.platform !== 'win32', 'a POSIX shell').it(
  `osmosis eval run halts on a full disk, says which file and how much room there is, and completes later`,
  async () => {
    const output = temporaryFolder()
    const data = path.join(output, 'rows.jsonl')
    const row = JSON.stringify({ user_prompt: 'word '.repeat(1000), ground_truth: 'x' })
    writeFileSync(data, `${row}\n`.repeat(12))
    // Two at a time: what waits is written at once, and all twelve would not fit.
    const args = `eval run -m rollouts/echo/main.ts -d ${data} --policy policies/echo.ts --output ${output} --name r --max-in-flight 2`
    const limited = spawn(
      '/bin/sh',
      ['-c', 'ulimit -f 64 && exec "$0" "$@"', process.execPath, bin, ...args.split(' ')],
      { cwd: workspace, stdio: ['ignore', 'ignore', 'pipe'] },
    )
    let stderr = ''
    limited.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    await once(limited, 'close')
    expect([limited.exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(
        /error: The run is incomplete\. Cannot write to .*\/r\/(?:trajectories|samples)\/0000\.jsonl: .*iB are free in /,
      ),
    ])
    const { code, stderr: said } = await osmosis(args.split(' '))
    const done = Number(/Resuming r, (\d+) of 12 done/.exec(said)?.[1])
    expect(done).toBeGreaterThan(0)
    expect(done).toBeLessThan(12)
    const journal = readFileSync(path.join(output, 'r/events.jsonl'), 'utf8').trimEnd().split('\n')
    const rows = journal.map((line) => (JSON.parse(line) as { row_index: number }).row_index)
    expect([code, rows.toSorted((a, b) => a - b)]).toEqual([0, [...Array(12).keys()]])
  },
)
