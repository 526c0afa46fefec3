import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Agent } from 'agents'

import { answer } from './answer.ts'

const provider = createOpenAICompatible({ name: 'provider', baseURL: 'https://models.example/v1' })

export class CalculatorAgent extends Agent {
  override async onRequest(request: Request): Promise<Response> {
    const question = { role: 'user' as const, content: await request.text() }
    return new Response(await answer(provider('gpt-4.1'), [question], request.signal))
  }
}
