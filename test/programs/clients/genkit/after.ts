import { openAICompatible } from '@genkit-ai/compat-oai'
import { AgentWorkflow, requireRolloutContext } from '@osmosis/core'
import type { AgentWorkflowContext } from '@osmosis/core'
import { createPolicyProxy } from '@osmosis/proxy'
import { genkit, z } from 'genkit'

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const { url: baseURL } = await createPolicyProxy(policy)
    const plugin = openAICompatible({ name: 'policy', baseURL, apiKey: 'unused', maxRetries: 0 })
    const ai = genkit({ plugins: [plugin] })
    const multiply = ai.defineTool(
      {
        name: 'multiply',
        description: 'Multiply two integers.',
        inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
        outputSchema: z.string(),
      },
      async ({ a, b }) => String(a * b),
    )
    const prompt = ctx.prompt.map(({ content }) => String(content)).join('\n')
    await ai.generate({
      model: 'policy/policy',
      prompt,
      tools: [multiply],
      abortSignal: ctx.signal,
    })
  }
}
