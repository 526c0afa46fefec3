// @module-tag slow
import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { inWorkspace } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { startInTerminal } from './pseudo-terminal.ts'

inWorkspace()

it.each([
  ['No', 'n\r', 1],
  ['Ctrl-D', '\u0004', 1],
  ['Ctrl-C', '\u0003', 130],
])('osmosis eval run asks before very many rollouts, and %s ends it', async (_how, typed, code) => {
  const folder = temporaryFolder()
  const dataset = path.join(folder, 'rows.jsonl')
  writeFileSync(dataset, '{"user_prompt":"a","ground_truth":"A"}\n'.repeat(500))
  const session = startInTerminal(
    `eval run -m rollouts/echo/main.ts -d ${dataset} --policy policies/echo.ts --n 2 --output ${folder}`.split(
      ' ',
    ),
  )
  await session.until('Start 1,000 rollouts? [Y/n] ')
  session.type(typed)
  expect((await session.ended).code).toBe(code)
})
