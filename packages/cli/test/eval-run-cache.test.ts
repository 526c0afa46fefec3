import { globSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { run } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

/** Asks twice the same: each has an answer of its own. */
const main = `import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext } from '@osmosis/core'

export const config = defineWorkflowConfig({ name: 'asking' })

export class Asking extends AgentWorkflow {
  async run({ prompt }) {
    const policy = requireRolloutContext('The agent').registerPolicySample('main')
    const ask = async () => {
      const body = JSON.stringify({ messages: prompt })
      const answer = await policy.fetch(policy.baseUrl + '/chat/completions', { method: 'POST', body })
      return (await answer.json()).choices[0].message.content
    }
    await ask()
    await ask()
  }
}

export class Grade extends Grader {
  async grade(ctx) {
    ctx.setReward(Number(ctx.sample.messages.at(-1).content))
  }
}
`

it('--cache answers what an earlier run asked in the same attempt, at no cost', async () => {
  let answered = 0
  const usage = { promptTokens: 1_000_000, completionTokens: 0 }
  await using server = await startPolicyServer(() => ({
    content: String((answered += 1)),
    usage,
  }))
  const root = temporaryWorkspace({
    'rollouts/asking/main.ts': main,
    'configs/eval/asking.toml': evalConfig('asking'),
    'osmosis.toml': '[prices."m1"]\ninput = 1.0\noutput = 1.0\n',
  })
  const evaluate = async (
    name: string,
    more = '',
  ): Promise<Record<'rewards' | 'costs', (string | undefined)[]>> => {
    const flags = `--base-url ${server.url} --model m1 --limit 2 --n 2 --max-in-flight 1 --quiet`
    const words = `eval run configs/eval/asking.toml ${flags} --name ${name} ${more}`.trim()
    const { code } = await run(words.split(' '), {}, root)
    expect(code).toBe(0)
    const csv = await run(['eval', 'export', name, '--csv', '-'], {}, root)
    const [head = [], ...rows] = csv.stdout
      .trim()
      .split('\n')
      .map((line) => line.split(','))
    const column = (title: string): (string | undefined)[] =>
      rows.map((row) => row[head.indexOf(title)])
    return { rewards: column('reward'), costs: column('cost_usd') }
  }

  // Each run calls the model once before it starts.
  const first = await evaluate('first', '--cache')
  expect(server.requests).toHaveLength(9)
  const second = await evaluate('second', '--cache')
  expect(server.requests).toHaveLength(10)
  expect(second.rewards).toEqual(first.rewards)
  expect(new Set(first.rewards).size).toBe(4)
  expect([first.costs, second.costs]).toEqual([Array(4).fill('2'), Array(4).fill('0')])

  // A damaged answer is requested again; without the flag every answer is.
  const [file = ''] = globSync('.osmosis/cache/*/*.json', { cwd: root })
  writeFileSync(path.join(root, file), '{')
  await evaluate('third', '--cache')
  expect(server.requests).toHaveLength(12)
  await evaluate('fourth')
  expect(server.requests).toHaveLength(21)
})

it('--cache stores no answer that broke off', async () => {
  const cut = fault.on('an answer that is cut', { cutAfterBytes: 300 })
  await using server = await startPolicyServer([cut, cut, 'whole', 'whole'])
  const root = temporaryWorkspace({
    'rollouts/asking/main.ts': main,
    'configs/eval/asking.toml': evalConfig('asking'),
  })
  const flags = `--base-url ${server.url} --model m1 --limit 1 --cache`
  await run(`eval run configs/eval/asking.toml ${flags}`.split(' '), {}, root)
  expect(globSync('.osmosis/cache/*/*.json', { cwd: root })).toEqual([])
})
