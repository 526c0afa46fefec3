import path from 'node:path'

import { Codex } from '@openai/codex-sdk'
import { AgentWorkflow, requireRolloutContext } from '@osmosis/core'
import type { AgentWorkflowContext } from '@osmosis/core'
import { createPolicyProxy } from '@osmosis/proxy'

const here = import.meta.dirname

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const codex = new Codex({
    config: {
      mcp_servers: {
        calculator: { command: process.execPath, args: [path.join(here, 'calculator-server.ts')] },
      },
    },
  })
  const thread = codex.startThread({
    model: 'gpt-5.5',
    workingDirectory: here,
    skipGitRepoCheck: true,
    sandboxMode: 'danger-full-access',
    approvalPolicy: 'never',
  })
  const turn = await thread.run('What is 12 times 34?')
  console.log(turn.finalResponse)
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const proxy = await createPolicyProxy(policy)
    const folder = await ctx.workFolder()
    const home = path.join(folder, 'home')
    const codex = new Codex({
      env: { PATH: process.env['PATH'] ?? '', ...proxy.env('openai', { home }) },
      config: {
        model_provider: 'policy',
        model_providers: {
          policy: {
            name: 'policy',
            base_url: `${proxy.origin}/v1`,
            env_key: 'CODEX_API_KEY',
            wire_api: 'responses',
            supports_websockets: false,
            request_max_retries: 0,
            stream_max_retries: 0,
            stream_idle_timeout_ms: 86_400_000,
          },
        },
        features: { plugins: false, apps: false, goals: false, multi_agent: false },
        skills: { include_instructions: false, bundled: { enabled: false } },
        include_environment_context: false,
        analytics: { enabled: false },
        mcp_servers: {
          calculator: {
            command: process.execPath,
            args: [path.join(here, 'calculator-server.ts')],
            required: true,
          },
        },
      },
    })
    const thread = codex.startThread({
      model: 'policy',
      workingDirectory: folder,
      skipGitRepoCheck: true,
      sandboxMode: 'danger-full-access',
      approvalPolicy: 'never',
    })
    const prompt = ctx.prompt.map(({ content }) => String(content)).join('\n')
    await thread.run(prompt, { signal: ctx.signal })
  }
}
