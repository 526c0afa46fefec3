import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

/** Calls the policy's tools until it calls none; fails at 'two', and has a second sample at 'four'. */
export class CallingWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const rollout = requireRolloutContext('CallingWorkflow')
    const messages: ChatMessage[] = [...ctx.prompt]
    rollout.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages }) })
    for (;;) {
      const { choices } = await rollout.policy('main').complete({ messages })
      const answer = choices[0]?.message
      if (answer === undefined) throw new Error('no answer')
      messages.push(answer)
      if (messages[0]?.content === 'two') throw new Error('the tool is broken')
      if (answer.tool_calls === undefined) break
      for (const { id } of answer.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: '42' })
      }
    }
    if (messages[0]?.content !== 'four') return
    const review: ChatMessage[] = [{ role: 'tool', tool_call_id: 'c1', content: 'Right?' }]
    rollout.registerSampleSource('critic', {
      getSample: (id) => toRolloutSample({ id, messages: review }),
    })
    await rollout.policy('critic').complete({ messages: review })
  }
}

export class OneGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 0.5)
  }
}
