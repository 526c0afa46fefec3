import { AgentWorkflow, type AgentWorkflowContext, requireRolloutContext } from '@osmosis/core'
import OpenAI from 'openai'
import { z } from 'zod'

const numbers = z.object({ a: z.number().int(), b: z.number().int() })
const multiply: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'multiply',
    description: 'Multiply two integers.',
    parameters: z.toJSONSchema(numbers),
  },
}

async function answer(
  client: OpenAI,
  question: OpenAI.ChatCompletionMessageParam[],
): Promise<string> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [
    { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
    ...question,
  ]
  for (let turn = 0; turn < 8; turn += 1) {
    const { choices } = await client.chat.completions.create({
      model: 'gpt-4.1',
      messages,
      tools: [multiply],
      temperature: 1,
      max_tokens: 4096,
    })
    const [{ message }] = choices as [OpenAI.ChatCompletion.Choice]
    messages.push(message)
    if (!message.tool_calls?.length) return message.content ?? ''
    for (const call of message.tool_calls) {
      messages.push({ role: 'tool', tool_call_id: call.id, content: execute(call) })
    }
  }
  return ''
}

function execute(call: OpenAI.ChatCompletionMessageToolCall): string {
  if (call.type !== 'function') return 'There is no such tool.'
  try {
    const { a, b } = numbers.parse(JSON.parse(call.function.arguments))
    return String(a * b)
  } catch (error) {
    return String(error)
  }
}

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const client = new OpenAI({
    baseURL: process.env['MODEL_BASE_URL'],
    apiKey: process.env['MODEL_API_KEY'],
  })
  console.log(await answer(client, [{ role: 'user', content: 'What is 12 times 34?' }]))
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The calculator').registerPolicySample('calculator')
    const client = new OpenAI({
      baseURL: policy.baseUrl,
      apiKey: 'unused',
      fetch: policy.fetch,
      maxRetries: 0,
      timeout: 2 ** 31 - 1,
    })
    await answer(client, ctx.prompt)
  }
}
