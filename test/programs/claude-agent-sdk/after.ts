import path from 'node:path'

import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk'
import { AgentWorkflow, definePolicyFaults, requireRolloutContext } from '@osmosis/core'
import type { AgentWorkflowContext } from '@osmosis/core'
import { spawnInGroup } from '@osmosis/core/sandbox'
import { createPolicyProxy } from '@osmosis/proxy'
import { z } from 'zod'

const multiply = tool(
  'multiply',
  'Multiply two integers.',
  { a: z.number().int(), b: z.number().int() },
  async ({ a, b }) => ({ content: [{ type: 'text', text: String(a * b) }] }),
)

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const conversation = query({
    prompt: 'What is 12 times 34?',
    options: {
      model: 'claude-sonnet-5',
      systemPrompt: 'Use the multiply tool when arithmetic is required.',
      tools: [],
      mcpServers: { calculator: createSdkMcpServer({ name: 'calculator', tools: [multiply] }) },
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: true,
      maxTurns: 8,
    },
  })
  for await (const message of conversation) {
    if (message.type === 'result' && message.subtype === 'success') console.log(message.result)
  }
}

/** The policy has used up its turns: a fault of the policy, so the rollout is graded. */
class OutOfTurns extends Error {}

definePolicyFaults((error) => (error instanceof OutOfTurns ? { limit: 'max_turns' } : undefined))

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const proxy = await createPolicyProxy(policy)
    const folder = await ctx.workFolder()
    const home = path.join(folder, 'home')
    const conversation = query({
      prompt: ctx.prompt.map(({ content }) => String(content)).join('\n'),
      options: {
        cwd: folder,
        env: { PATH: process.env['PATH'], IS_SANDBOX: '1', ...proxy.env('anthropic', { home }) },
        spawnClaudeCodeProcess: ({ command, args, cwd, env }) =>
          spawnInGroup(command, args, { cwd, env, signal: ctx.signal }),
        settingSources: [],
        model: 'policy',
        systemPrompt: 'Use the multiply tool when arithmetic is required.',
        tools: [],
        mcpServers: { calculator: createSdkMcpServer({ name: 'calculator', tools: [multiply] }) },
        permissionMode: 'bypassPermissions',
        allowDangerouslySkipPermissions: true,
        maxTurns: 8,
      },
    })
    for await (const message of conversation) {
      if (message.type === 'result' && message.subtype === 'error_max_turns') throw new OutOfTurns()
    }
  }
}
