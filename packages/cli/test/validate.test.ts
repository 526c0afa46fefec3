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

  it('names the model of the adapter that the project has', async () => {
    const dependencies = { '@osmosis/core': '*', '@osmosis/langchain': '*' }
    workspaceOf('', { 'package.json': JSON.stringify({ type: 'module', dependencies }) })
    const { stdout } = await run(['validate', 'one'])
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'Give the agent OsmosisChatModel of @osmosis/langchain instead of its old model',
    )
  })

  it('warns about a tool that throws, although the rollout has a reward', async () => {
    workspaceOf(`sample('main')
    const made = { id: 'c1', type: 'function', function: { name: 'multiply', arguments: '{}' } }
    messages.push({ role: 'assistant', content: '', tool_calls: [made] })
    messages.push({ role: 'tool', tool_call_id: 'c1', content: 'TypeError: shop db down' })
    await say('main')`)
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings).toContain('warn tools: multiply failed: TypeError: shop db down')
  })

  it('names an entrypoint without a grader', async () => {
    const workflow = `import { AgentWorkflow } from '@osmosis/core'
export class One extends AgentWorkflow { async run() {} }`
    workspaceOf('', { 'rollouts/one/main.js': workflow })
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    const { stdout } = await run(['validate', 'one'])
    expect(stdout).toContain('ctx.setReward(…)')
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
    ['pnpm-lock.yaml', `import '@acme/tools/search'`, '→ pnpm add @acme/tools'],
    ['package-lock.json', `require('left-pad-2/x')`, '→ npm install left-pad-2'],
    ['yarn.lock', `import './helper.ts'`, undefined],
  ])('says how to install what an entrypoint imports: %s, %s', async (lock, line, advice) => {
    const main = `import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
${line}`
    workspaceOf('', { [lock]: '', 'rollouts/one/main.js': main })
    const [, finding = ''] = (await validate('one')).findings
    expect(finding).toMatch(/^fail entrypoint: Cannot load the entrypoint/)
    expect(/→ .*/.exec(finding)?.[0]).toBe(advice)
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
