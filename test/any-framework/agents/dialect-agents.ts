import Anthropic from '@anthropic-ai/sdk'
import { requireRolloutContext } from '@osmosis/core'
import { createPolicyProxy, type PolicyProxy } from '@osmosis/proxy'
import type { ContractRun, ContractTool } from '@osmosis/testing'
import OpenAI from 'openai'

/** Loops over the other dialects of the proxy, with the clients of their vendors. */
async function withProxy(
  { name }: ContractRun,
  loop: (proxy: PolicyProxy) => Promise<string>,
): Promise<string> {
  const policy = requireRolloutContext('The agent').registerPolicySample(name)
  const proxy = await createPolicyProxy(policy)
  try {
    return await loop(proxy)
  } finally {
    await proxy.close()
  }
}

async function resultOf(
  tools: readonly ContractTool[],
  name: string,
  input: unknown,
): Promise<string> {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input)
  if (!isObject) return 'the input is not a JSON object'
  const tool = tools.find((known) => known.name === name)
  return (await tool?.execute(input)) ?? `unknown tool: ${name}`
}

/** Anthropic's Messages. */
export async function messagesLoop(run: ContractRun, streams: boolean): Promise<string> {
  return withProxy(run, async (proxy) => {
    const { tools = [], prompt, signal } = run
    const client = new Anthropic({ baseURL: proxy.anthropicUrl, apiKey: 'unused', maxRetries: 0 })
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: prompt }]
    for (;;) {
      const request = {
        model: 'policy',
        max_tokens: 100,
        messages,
        tools: tools.map(({ name, description, parameters }) => ({
          name,
          description,
          input_schema: parameters as { type: 'object' },
        })),
      }
      const { content, stop_reason } = streams
        ? await client.messages.stream(request, { signal }).finalMessage()
        : await client.messages.create(request, { signal })
      messages.push({ role: 'assistant', content })
      const calls = content.filter((block) => block.type === 'tool_use')
      if (stop_reason !== 'tool_use') {
        return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
      }
      const results: Anthropic.ToolResultBlockParam[] = []
      for (const { id, name, input } of calls) {
        const result = await resultOf(tools, name, input)
        results.push({ type: 'tool_result', tool_use_id: id, content: result })
      }
      messages.push({ role: 'user', content: results })
    }
  })
}

/** OpenAI's Responses. */
export async function responsesLoop(run: ContractRun, streams: boolean): Promise<string> {
  return withProxy(run, async (proxy) => {
    const { tools = [], prompt, signal } = run
    const client = new OpenAI({ baseURL: proxy.url, apiKey: 'unused', maxRetries: 0 })
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: prompt }]
    for (;;) {
      const request = {
        model: 'policy',
        input,
        tools: tools.map(({ name, description, parameters }) => ({
          type: 'function' as const,
          name,
          description,
          parameters,
          strict: false,
        })),
      }
      const response = streams
        ? await client.responses.stream(request, { signal }).finalResponse()
        : ((await client.responses.create(request, { signal })) as OpenAI.Responses.Response)
      input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]))
      const calls = response.output.filter((item) => item.type === 'function_call')
      if (calls.length === 0 || response.status !== 'completed') return response.output_text
      for (const { call_id, name, arguments: written } of calls) {
        const output = await resultOf(tools, name, parsed(written))
        input.push({ type: 'function_call_output', call_id, output })
      }
    }
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
