import { readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { run, useProcesses } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const main = `import { AgentWorkflow, requireRolloutContext } from '@osmosis/core'
function lookUp(): never { throw new TypeError('shop db down') }
import { ordersOf } from './orders.ts'

export class Shop extends AgentWorkflow {
  async run() {
    try { lookUp() } catch (error) { requireRolloutContext('Shop').logToolError('look_up', error) }
    return [{ role: 'user', content: String(ordersOf(undefined)) }]
  }
}
`
const flags = '--policy policies/echo.ts --limit 1 --no-grader --name r'
const orders = `export function ordersOf(customer: any): unknown {
  return customer.orders
}
`

it('what the code of a rollout threw is shown with its function, file and line, and its stack on the next command; that of a tool is in logs.txt', async () => {
  // Stacks name files as the process of the entrypoint sees them.
  useProcesses()
  const root = temporaryWorkspace({
    'rollouts/shop/main.ts': main,
    'rollouts/shop/orders.ts': orders,
    'configs/eval/shop.toml': evalConfig('shop'),
  })
  const osmosis = (words: string): ReturnType<typeof run> => run(words.split(' '), {}, root)
  const evaluated = await osmosis(`eval run configs/eval/shop.toml ${flags} --details`)
  const why =
    "thrown by run() at orders.ts:2: Cannot read properties of undefined (reading 'orders')"
  expect(evaluated.stdout).toContain(
    `1 × validation_error, 0.1\n  ${why}\n  The stack (all output is in logs.txt of the run):\n  osmosis eval show r 0.1\n`,
  )

  const { stdout } = await osmosis('eval show r 0.1')
  expect(stdout).toContain(`validation_error  ${why}\nStack\n  TypeError: Cannot read properties`)
  expect(stdout).toMatch(
    / at ordersOf \(.*orders\.ts:2:\d+\)\n +at Shop\.run \(.*main\.ts:8:\d+\)\n/,
  )
  expect(stdout).toMatch(/\nThe whole output: .*\/r\/logs\.txt\n/)
  expect(toolErrorsOf(root)).toEqual([shopDown])
})

it('an agent that never calls the policy is advised to take the model of its adapter', async () => {
  const root = temporaryWorkspace({
    'package.json': '{ "dependencies": { "@osmosis/langchain": "*" } }',
    'rollouts/shop/main.ts': `import { AgentWorkflow } from '@osmosis/core'
export class Shop extends AgentWorkflow { async run() {} }`,
    'configs/eval/shop.toml': evalConfig('shop'),
  })
  const words = 'eval run configs/eval/shop.toml --policy policies/echo.ts --limit 1 --name r'
  const { stdout } = await run([...words.split(' '), '--no-grader', '--details'], {}, root)
  const shown = stdout.replaceAll(/\s+/g, ' ')
  expect(shown).toContain('0.1 No model call reached the policy.')
  expect(shown).toContain('→ Give the agent OsmosisChatModel of @osmosis/langchain instead of')
})

it('a grader that sets no reward is told which call it lacks, and the row is not blamed', async () => {
  const root = temporaryWorkspace({
    'rollouts/silent/main.ts': `import { Grader } from '@osmosis/core'
export { EchoWorkflow } from '../echo/main.ts'
export class Silent extends Grader { async grade() {} }`,
    'configs/eval/silent.toml': evalConfig('silent'),
  })
  const words = 'eval run configs/eval/silent.toml --policy policies/echo.ts --limit 1 --details'
  const { stdout } = await run(words.split(' '), {}, root)
  const shown = stdout.replaceAll(/\s+/g, ' ')
  expect(shown).toContain(
    '1 × validation_error, 0.1 The grader set no reward. Call ctx.setReward(reward) in grade(), or ctx.removeSample(',
  )
})

it(
  'what a tool throws is in logs.txt of the run with its stack, with workers',
  { tags: 'slow' },
  async () => {
    useProcesses()
    const root = temporaryWorkspace({
      'rollouts/shop/main.ts': main,
      'rollouts/shop/orders.ts': "export const ordersOf = () => 'no orders'\n",
      'configs/eval/shop.toml': evalConfig('shop'),
    })
    const words = `eval run configs/eval/shop.toml ${flags} --workers 1`
    const { code, stderr } = await run(words.split(' '), {}, root)
    expect([code, stderr]).toEqual([0, expect.anything()])
    expect(toolErrorsOf(root)).toEqual([shopDown])
  },
)

const shopDown = expect.objectContaining({
  tool: 'look_up',
  thrown: expect.stringMatching(/^TypeError: shop db down\n +at lookUp .*main\.ts:2/),
})

/** The lines of tool errors in the log of the run. */
function toolErrorsOf(root: string): object[] {
  const log = readFileSync(path.join(root, '.osmosis/evals/r/logs.txt'), 'utf8')
  const lines = log.split('\n').filter((line) => line.includes('"tool":'))
  return lines.map((line) => JSON.parse(line) as object)
}

it('a label that a scoring function cannot read is named with its row', async () => {
  const grader = `import { AgentWorkflow, Grader } from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
export class Shop extends AgentWorkflow {
  async run() { return [{ role: 'assistant', content: '12' }] }
}
export class Counts extends Grader {
  async grade(ctx: any) { ctx.setReward(numeric('12', ctx.label)) }
}
`
  const rows = ['12', 'twelve or 13'].map((ground_truth) =>
    JSON.stringify({ user_prompt: 'How many?', ground_truth }),
  )
  const root = temporaryWorkspace({
    'rollouts/shop/main.ts': grader,
    'data/counts.jsonl': rows.join('\n'),
  })
  const words = 'eval run -m rollouts/shop/main.ts -d data/counts.jsonl --policy policies/echo.ts'
  const { stdout } = await run([...words.split(' '), '--details'], {}, root)
  const label = 'got "twelve or 13". (line 2 of the dataset)'
  expect(stdout).toContain(label)
})
