import { fromChatMessages, rolloutModel } from '@osmosis/ai-sdk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { generateText, streamText } from 'ai'

export class DraftWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const draft = await generateText({
      model: rolloutModel('writer'),
      ...fromChatMessages(ctx.prompt),
      abortSignal: ctx.signal,
    })
    const model = rolloutModel({ name: 'reviewer', temperature: 0 })
    const prompt = `Review this draft: ${draft.text}`
    await streamText({ model, prompt, abortSignal: ctx.signal }).text
  }
}
