import { beforeEach, describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { inTypedWorkspace } from './typed-workspace.ts'

beforeEach(() => void inTypedWorkspace())

describe('rows of a declared shape', () => {
  it('looks only at the rows it takes, and gives user code what the schema made of them', async () => {
    const { code, stdout } = await run(
      'eval run -m rollouts/typed/main.ts --policy policies/echo.ts -o out -d data/bad.jsonl --rows 0,2'.split(
        ' ',
      ),
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/Reward\s+2\b/)
  })

  it('is checked by workers, too', async () => {
    const words =
      'eval run -m rollouts/sums/main.ts --workers 1 --policy policies/echo.ts -o out -d data/labels.jsonl'
    const { code, stderr } = await run(words.split(' '))
    expect(code).toBe(2)
    expect(stderr).toContain('- line 2: label: numeric needs a label that is one number')
  })

  it('says so when the entrypoint declares no schema, or cannot be loaded', async () => {
    const echo = await run(
      'dataset validate data/valid.jsonl --entrypoint rollouts/echo/main.ts'.split(' '),
    )
    expect([echo.code, echo.stdout]).toEqual([
      0,
      'data/valid.jsonl is a valid dataset.\nwarning: rows were not checked against rollouts/echo/main.ts: its configs declare no schema of metadata or labels\n',
    ])
    const none = await run(
      'dataset validate data/valid.jsonl --entrypoint rollouts/none.ts'.split(' '),
    )
    expect(none.code).toBe(2)
    expect(none.stderr).toMatch(/The entrypoint file .* does not exist/)
  })
})
