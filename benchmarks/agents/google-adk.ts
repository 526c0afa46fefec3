import {
  type BaseLlm,
  FunctionTool,
  Gemini,
  InMemoryRunner,
  LlmAgent,
  setLogger,
  StreamingMode,
} from '@google/adk'
import { OsmosisLlm } from '@osmosis/google-adk'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

setLogger(null)

const multiply = new FunctionTool({
  name: 'multiply',
  description: toolText,
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

export function before(baseURL: string): AgentRuns {
  process.env['GOOGLE_GEMINI_BASE_URL'] = new URL(baseURL).origin
  return runs(new Gemini({ model: 'm', apiKey: 'unused' }))
}

export function after(): AgentRuns {
  return runs(new OsmosisLlm('main'))
}

function runs(model: BaseLlm): AgentRuns {
  const agent = new LlmAgent({
    name: 'calculator',
    instruction: instructions,
    model,
    generateContentConfig: { temperature: 1, maxOutputTokens: maxTokens },
    tools: [multiply],
  })
  const said = async (streamingMode: StreamingMode): Promise<string> => {
    const runner = new InMemoryRunner({ agent })
    const newMessage = { role: 'user', parts: [{ text: question }] }
    const events = runner.runEphemeral({
      userId: 'user',
      newMessage,
      runConfig: { streamingMode },
    })
    let text = ''
    for await (const { content, partial } of events) {
      if (!partial) text = (content?.parts ?? []).map((part) => part.text ?? '').join('')
    }
    return text
  }
  return {
    generate: async () => said(StreamingMode.NONE),
    stream: async () => said(StreamingMode.SSE),
  }
}
