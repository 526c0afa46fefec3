import path from 'node:path'

import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk'
import {
  AgentWorkflow,
  definePolicyFaults,
  defineWorkflowConfig,
  requireRolloutContext,
  type AgentWorkflowContext,
} from '@osmosis/core'
import { spawnInGroup } from '@osmosis/core/sandbox'
import { createPolicyProxy } from '@osmosis/proxy'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = tool(
  'look_up_price',
  'The price of one piece of a product, in euros.',
  { product: z.string() },
  async ({ product }) => ({ content: [{ type: 'text', text: lookUpPrice(product) }] }),
)

/** Each rollout is a process of about 215 MB. */
export const config = defineWorkflowConfig({
  name: '__name__',
  concurrency: { maxConcurrent: 8 },
  rolloutLimits: { modelCalls: 20 },
})

/** The policy has used up its turns: a fault of the policy, so the rollout is graded. */
class OutOfTurns extends Error {}

definePolicyFaults((error) => (error instanceof OutOfTurns ? { limit: 'max_turns' } : undefined))

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    // For users, the program Claude Code runs with its own login, without `proxy.env`.
    const policy = requireRolloutContext('The agent').registerPolicySample('__name__')
    const proxy = await createPolicyProxy(policy)
    const folder = await ctx.workFolder()
    const conversation = query({
      prompt: ctx.prompt.map(({ content }) => String(content)).join('\n'),
      options: {
        cwd: folder,
        env: {
          PATH: process.env['PATH'],
          // Allows to run as root without asking for permissions.
          IS_SANDBOX: '1',
          ...proxy.env('anthropic', { home: path.join(folder, 'home') }),
        },
        // Ends it with all of its tools at the deadline or cancellation of the rollout.
        spawnClaudeCodeProcess: ({ command, args, cwd, env }) =>
          spawnInGroup(command, args, { cwd, env, signal: ctx.signal }),
        model: 'policy',
        systemPrompt: 'Look up every price, then add up.',
        // Of Claude Code's own tools none: ['Bash', 'Read'] would give it a shell.
        tools: [],
        mcpServers: { shop: createSdkMcpServer({ name: 'shop', tools: [lookUp] }) },
        permissionMode: 'bypassPermissions',
        allowDangerouslySkipPermissions: true,
        settingSources: [],
        maxTurns: 8,
      },
    })
    // Read to its end: the conversation continues only while it is read.
    for await (const message of conversation) {
      if (message.type === 'result' && message.subtype === 'error_max_turns') throw new OutOfTurns()
    }
  }
}
