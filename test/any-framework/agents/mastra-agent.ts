import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent } from '@mastra/core/agent'
import type { MastraModelConfig } from '@mastra/core/llm'
import { createTool } from '@mastra/core/tools'
import { rolloutModel } from '@osmosis/ai-sdk'
import { requireRolloutContext } from '@osmosis/core'
import type { ContractRun } from '@osmosis/testing'

function agentOf({ name, tools = [] }: ContractRun, model: MastraModelConfig): Agent {
  return new Agent({
    id: name,
    name,
    instructions: '',
    model,
    tools: Object.fromEntries(
      tools.map(({ name: id, description, parameters, execute }) => [
        id,
        createTool({
          id,
          description,
          inputSchema: parameters,
          execute: async (input: unknown) => execute(input),
        }),
      ]),
    ),
  })
}

const options = ({ signal }: ContractRun) => ({
  maxSteps: 20,
  ...(signal ? { abortSignal: signal } : {}),
})

export async function mastra(run: ContractRun): Promise<string> {
  const agent = agentOf(run, rolloutModel(run.name) as MastraModelConfig)
  const { text } = await agent.generate(run.prompt, options(run))
  return text
}

export async function mastraStream(run: ContractRun): Promise<string> {
  const agent = agentOf(run, rolloutModel(run.name) as MastraModelConfig)
  const output = await agent.stream(run.prompt, options(run))
  let said = ''
  for await (const text of output.textStream) said += text
  // The stream of texts ends without an error.
  if (output.error) throw output.error
  return said
}

/** With the provider that speaks chat completions, over the fetch of the policy. */
export async function mastraFetch(run: ContractRun): Promise<string> {
  const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample(run.name)
  const provider = createOpenAICompatible({ name: 'policy', baseURL: baseUrl, fetch })
  const agent = agentOf(run, provider('policy') as MastraModelConfig)
  const { text } = await agent.generate(run.prompt, options(run))
  return text
}
