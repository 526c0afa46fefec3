import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { ContractTool } from '@osmosis/testing'

export class LoopAgent {
  readonly #policy
  readonly #messages: ChatMessage[] = []

  constructor(name: string) {
    const rollout = requireRolloutContext('LoopAgent')
    this.#policy = rollout.policy(name)
    rollout.registerSampleSource(name, {
      requiresModelCall: true,
      getSample: (id) => toRolloutSample({ id, messages: this.#messages }),
    })
  }

  async ask(
    content: string,
    tools: readonly ContractTool[],
    signal?: AbortSignal,
  ): Promise<string> {
    this.#messages.push({ role: 'user', content })
    for (;;) {
      const request = { messages: this.#messages, ...wireTools(tools) }
      const { choices } = await this.#policy.complete(request, { signal })
      const message = choices[0]?.message
      if (message === undefined) return ''
      this.#messages.push(message)
      if (!message.tool_calls?.length) return message.content ?? ''
      for (const { id, function: call } of message.tool_calls) {
        const result = await execute(tools, call.name, call.arguments)
        this.#messages.push({ role: 'tool', tool_call_id: id, content: result })
      }
    }
  }
}

function wireTools(tools: readonly ContractTool[]): object {
  if (tools.length === 0) return {}
  const described = tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))
  return { tools: described }
}

async function execute(
  tools: readonly ContractTool[],
  name: string,
  text: string,
): Promise<string> {
  const tool = tools.find((one) => one.name === name)
  try {
    return (await tool?.execute(JSON.parse(text))) ?? 'no such tool'
  } catch (error) {
    requireRolloutContext('LoopAgent').logToolError(name, error)
    return `Error: ${String(error)}`
  }
}
