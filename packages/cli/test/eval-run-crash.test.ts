import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'

const items = 60
const inFlight = 4
const kills = 3

it('a run that is killed again and again ends with every item once', async () => {
  const output = temporaryFolder()
  const dataset = path.join(output, 'data.jsonl')
  const row = (index: number): string =>
    JSON.stringify({ user_prompt: `w${index}`, ground_truth: `W${index}` })
  writeFileSync(dataset, Array.from({ length: items }, (_, index) => `${row(index)}\n`).join(''))
  const args =
    `eval run -m rollouts/echo/main.ts -d ${dataset} --policy policies/echo.ts --max-in-flight ${inFlight} --output ${output} --name r`.split(
      ' ',
    )
  const journal = path.join(output, 'r/events.jsonl')
  const lines = (): string[] =>
    existsSync(journal)
      ? readFileSync(journal, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
      : []

  const acknowledged = new Set<string>()
  for (let kill = 1; kill <= kills; kill++) {
    const command = startOsmosis(args)
    await expect.poll(() => lines().length, { interval: 5 }).toBeGreaterThanOrEqual(kill * 12)
    command.child.kill('SIGKILL')
    await command.finished
    // The last line may be half of one.
    for (const line of lines().slice(0, -1)) acknowledged.add(line)
  }
  const { code, stderr } = await osmosis(args)
  expect(stderr).toMatch(/^Resuming r, \d+ of 60 done$/m)
  const rows = lines().map((line) => (JSON.parse(line) as { row_index: number }).row_index)
  expect([code, rows.toSorted((a, b) => a - b)]).toEqual([0, [...Array(items).keys()]])
  expect(lines()).toEqual(expect.arrayContaining([...acknowledged]))
  const log = readFileSync(path.join(output, 'r/logs.txt'), 'utf8')
  const started = log.match(/rollout accepted/g)?.length ?? 0
  expect(started).toBeLessThanOrEqual(items + kills * inFlight)
})
