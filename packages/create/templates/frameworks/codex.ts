import path from 'node:path'

import { Codex } from '@openai/codex-sdk'
import {
  AgentWorkflow,
  defineWorkflowConfig,
  requireRolloutContext,
  type AgentWorkflowContext,
} from '@osmosis/core'
import { createPolicyProxy } from '@osmosis/proxy'

export { ShopGrader } from './grader.ts'

/** Each rollout is a process of about 140 MB, and one for its tools. */
export const config = defineWorkflowConfig({
  name: '__name__',
  concurrency: { maxConcurrent: 8 },
  rolloutLimits: { modelCalls: 20 },
})

const here = import.meta.dirname

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    // For users, the program Codex runs with its own login, without `proxy.env` and the provider `policy`.
    const policy = requireRolloutContext('The agent').registerPolicySample('__name__')
    const proxy = await createPolicyProxy(policy)
    const folder = await ctx.workFolder()
    const codex = new Codex({
      env: {
        PATH: process.env['PATH'] ?? '',
        ...proxy.env('openai', { home: path.join(folder, 'home') }),
      },
      config: {
        model_provider: 'policy',
        model_providers: {
          policy: {
            name: 'policy',
            base_url: proxy.url,
            env_key: 'CODEX_API_KEY',
            wire_api: 'responses',
            supports_websockets: false,
            request_max_retries: 0,
            stream_max_retries: 0,
          },
        },
        model_instructions_file: path.join(here, 'instructions.md'),
        mcp_servers: {
          shop: {
            command: process.execPath,
            args: [path.join(here, 'shop-server.ts')],
            // Otherwise a busy machine has turns without the tools of a server that is still starting.
            required: true,
            startup_timeout_sec: 60,
          },
        },
        // Without these, each prompt has 20 kB of skills, settings and sub-agents, and each turn ends 5 s late.
        skills: { include_instructions: false, bundled: { enabled: false } },
        include_environment_context: false,
        include_permissions_instructions: false,
        features: { plugins: false, apps: false, goals: false, multi_agent: false },
        analytics: { enabled: false },
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
