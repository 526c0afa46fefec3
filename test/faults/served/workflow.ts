import {
  AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'

import { begin, harmIn, runMark, type Row } from './harms.ts'

export const workflowConfig = defineWorkflowConfig({
  name: 'faults',
  concurrency: { maxConcurrent: 96 },
})
export const graderConfig = defineGraderConfig({ name: 'faults' })

/** Makes the calls of its row, and identifies its process to the policy. */
export class FaultyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const row = ctx.metadata as unknown as Row
    const context = requireRolloutContext('the fault run')
    const mark = runMark()
    const messages: { role: string; content: unknown }[] = []
    context.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages }) })
    await begin(row, mark)
    await harmIn('before asking', row)
    for (let call = 0; call < row.calls; call += 1) {
      if (call > 0) await harmIn('between calls', row)
      messages.push({ role: 'user', content: `${call} ${mark}` })
      const answer = await context.policy('main').complete({ messages: [...messages] as never })
      messages.push({ role: 'assistant', content: answer.choices[0]?.message.content })
    }
  }
}

/** The reward is the last answer of the policy. */
export class EchoedReward extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    await harmIn('grading', ctx.metadata as unknown as Row)
    const last = ctx.sample.messages.at(-1) as { content: string }
    ctx.setReward(Number(last.content))
  }
}
