import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it } from 'vitest'

import { run, workIn } from './in-process.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// Of the core: the command itself needs none.
const zod = path.resolve(import.meta.dirname, '../../core/node_modules/zod/index.js')

const workflow = `
import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext } from '@osmosis/core'
import { z } from ${JSON.stringify(zod)}

export const config = defineWorkflowConfig({
  name: 'typed',
  metadata: z.object({ city: z.string(), days: z.number().default(2) }),
})

export class Typed extends AgentWorkflow<typeof config> {
  async run(ctx: { metadata: { days: number } }) {
    const messages = [{ role: 'user', content: String(ctx.metadata.days) }]
    const { choices } = await requireRolloutContext('Typed').policy('sample').complete({ messages })
    return [...messages, choices[0].message]
  }
}

export class Days extends Grader<unknown, typeof config> {
  async grade(ctx: { metadata: { days: number }; setReward(reward: number): void }) {
    ctx.setReward(ctx.metadata.days)
  }
}
`

const good = '{"metadata":{"city":"Rome"}}\n'
const bad = `${good}\n{"metadata":{"days":1}}\n${good}{"metadata":{"city":1,"days":"x"}}\n`

let root = ''
beforeEach(() => {
  root = temporaryWorkspace({
    'rollouts/typed/main.ts': workflow,
    'data/bad.jsonl': bad,
    'data/valid.jsonl': good.repeat(4),
  })
  workIn(root)
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
    expect(existsSync(path.join(root, 'out')) ? readdirSync(path.join(root, 'out')) : []).toEqual(
      [],
    )
  })

  it('looks only at the rows it takes, and gives user code what the schema made of them', async () => {
    const { code, stdout } = await evalRun('-d data/bad.jsonl --rows 0,2')
    expect(code).toBe(0)
    expect(stdout).toMatch(/Reward\s+2\b/)
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

  it('says so when the entrypoint declares no schema, or cannot be loaded', async () => {
    const echo = await validate('data/valid.jsonl --entrypoint rollouts/echo/main.ts')
    expect([echo.code, echo.stdout]).toEqual([
      0,
      'data/valid.jsonl is a valid dataset.\nwarning: rows were not checked against rollouts/echo/main.ts: its workflow config declares no metadata schema\n',
    ])
    const none = await validate('data/valid.jsonl --entrypoint rollouts/none.ts')
    expect(none.code).toBe(1)
    expect(none.stderr).toContain('There is no entrypoint file')
  })
})
