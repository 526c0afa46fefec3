import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { inTypedWorkspace } from './typed-workspace.ts'

let root = ''
beforeEach(() => {
  root = inTypedWorkspace()
})

describe('osmosis eval run', () => {
  const evalRun = (words: string): ReturnType<typeof run> =>
    run(
      `eval run -m rollouts/typed/main.ts --policy policies/echo.ts --output out ${words}`.split(
        ' ',
      ),
    )

  it('refuses rows that do not fit, each with its line, before anything runs', async () => {
    const { code, stderr } = await evalRun('-d data/bad.jsonl')
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      2,
      `error: Invalid dataset data/bad.jsonl:
- line 3: metadata.city: Invalid input: expected string, received undefined
- line 5: metadata.city: Invalid input: expected string, received number; metadata.days: Invalid input: expected number, received string
`,
    ])
    const made = existsSync(path.join(root, 'out')) ? readdirSync(path.join(root, 'out')) : []
    expect(made.filter((name) => name !== '.locks')).toEqual([])
  })
})

describe('osmosis dataset validate --entrypoint', () => {
  const validate = (words: string): ReturnType<typeof run> =>
    run(['dataset', 'validate', ...words.split(' ')])

  it('checks all rows of the file by the schema of the workflow', async () => {
    expect(await validate('data/valid.jsonl --entrypoint rollouts/typed/main.ts')).toMatchObject({
      code: 0,
      stdout: 'data/valid.jsonl is a valid dataset.\n',
    })
    const { code, stdout } = await validate('data/bad.jsonl --entrypoint rollouts/typed/main.ts')
    expect(code).toBe(1)
    expect(stdout).toContain(
      '- line 3: metadata.city: Invalid input: expected string, received undefined\n- line 5: metadata.city',
    )
  })
})
