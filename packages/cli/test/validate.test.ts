import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { good, takenByAll, validate, workspaceOf } from './validated-rollouts.ts'

describe('osmosis validate', () => {
  it('finds nothing about a rollout that is ready', async () => {
    workspaceOf(`sample('main'); await say('main')`)
    expect(await validate('one')).toEqual({
      code: 0,
      findings: [...good, 'ok reward: 1 for main', ...takenByAll],
    })
  })

  it('names an agent that asks a model of its own', async () => {
    workspaceOf(`sample('main'); messages.push({ role: 'assistant', content: 'ONE' })`)
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings).toContain('fail model calls: No model call reached the policy.')
  })

  it('names an entrypoint without a grader', async () => {
    const workflow = `import { AgentWorkflow } from '@osmosis/core'
export class One extends AgentWorkflow { async run() {} }`
    workspaceOf('', { 'rollouts/one/main.js': workflow })
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings.slice(1)).toEqual([
      'ok entrypoint: exports a workflow',
      'fail grader: The entrypoint exports no grader, so no rollout gets a reward.',
      'warn workflow config: The entrypoint exports no workflow config: at most 4 rollouts run concurrently.',
    ])
  })

  it('validates a module, also of an agent loop, and prints the result', async () => {
    workspaceOf('', {
      'loop.ts': `import { RolloutAgentLoop } from '@osmosis/agent-loop'
class Loop extends RolloutAgentLoop {
  readonly name = 'loop'
  getTools() { return [] }
  async run(ctx: any) {
    const { message } = await ctx.chat(ctx.request.messages, ctx.request.completionParams)
    return ctx.complete([...ctx.request.messages, message])
  }
}
export const loop = new Loop()`,
    })
    const { code, stdout } = await run(['validate', '-m', 'loop.ts:loop'])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^loop\.ts:loop\nok {4}entrypoint {2}exports the agent loop 'loop' with 0 tools\nwarn {2}rollout {5}No rollout was run, because no dataset is named\.\n/,
    )
  })

  it.each([
    [['unknown'], /rollouts\/ has no rollout unknown\. Available: echo, one\./],
    [['one', '-m', 'x.ts'], /Name either a rollout of the workspace/],
    [['-d', 'data/words.jsonl'], /--dataset goes with --module/],
  ])('refuses %j', async (args, message) => {
    workspaceOf('')
    const { code, stderr } = await run(['validate', ...args])
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})
