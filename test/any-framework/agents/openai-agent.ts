import { requireRolloutContext } from '@osmosis/core'
import type { ContractRun } from '@osmosis/testing'
import OpenAI from 'openai'
import type {
  ChatCompletionMessage,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions'

/** The loop that programs on the plain client have, with whole answers. */
export async function openai(run: ContractRun): Promise<string> {
  return loop(run, async (client, body, signal) => {
    const { choices } = await client.chat.completions.create(body, { signal })
    return choices[0]?.message
  })
}

/** The same with streamed answers, put together by the client. */
export async function openaiStream(run: ContractRun): Promise<string> {
  return loop(run, async (client, body, signal) =>
    client.chat.completions.stream(body, { signal }).finalMessage(),
  )
}

type Body = Pick<OpenAI.ChatCompletionCreateParamsNonStreaming, 'model' | 'messages' | 'tools'>
type Ask = (
  client: OpenAI,
  body: Body,
  signal: AbortSignal | undefined,
) => Promise<ChatCompletionMessage | undefined>

async function loop({ name, prompt, tools = [], signal }: ContractRun, ask: Ask): Promise<string> {
  const policy = requireRolloutContext('The agent').registerPolicySample(name)
  const client = new OpenAI({ baseURL: policy.baseUrl, fetch: policy.fetch, apiKey: 'unused' })
  const described = tools.map(
    ({ name: toolName, description, parameters }): ChatCompletionTool => ({
      type: 'function',
      function: { name: toolName, description, parameters },
    }),
  )
  const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: prompt }]
  const more = described.length > 0 ? { tools: described } : {}
  for (;;) {
    const message = await ask(client, { model: 'policy', messages, ...more }, signal)
    if (message === undefined) throw new Error('the policy said nothing')
    messages.push(message)
    if (!message.tool_calls?.length) return message.content ?? ''
    for (const call of message.tool_calls) {
      if (call.type !== 'function') throw new Error(`a call of type ${call.type}`)
      const tool = tools.find((known) => known.name === call.function.name)
      messages.push({
        role: 'tool',
        tool_call_id: call.id,
        content: await result(call.function.arguments),
      })

      async function result(args: string): Promise<string> {
        try {
          const input: unknown = JSON.parse(args)
          if (typeof input !== 'object' || input === null) return 'the arguments are not an object'
          return (await tool?.execute(input)) ?? 'there is no such tool'
        } catch (error) {
          return String(error)
        }
      }
    }
  }
}
