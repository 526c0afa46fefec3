import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'

/** Calls the policy twice. The row says how it ends: `want` is `rewarded`, `said`, `removed` or `failed`. */
export class AsksTwice extends AgentWorkflow {
  async run({ prompt, metadata }: AgentWorkflowContext): Promise<unknown> {
    const policy = requireRolloutContext('AsksTwice').policy('sample')
    const messages = [...prompt]
    for (const question of [undefined, { role: 'user', content: 'Are you sure?' }]) {
      if (question !== undefined) messages.push(question)
      const { choices } = await policy.complete({ messages })
      if (choices[0] !== undefined) messages.push(choices[0].message)
    }
    if (metadata?.['want'] === 'failed') throw new Error('the row wants a failure')
    return messages
  }
}

/** Gives the label as the reward, or the last answer of the policy where `want` is `said`. */
export class SaysTheLabel extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const want = ctx.metadata?.['want']
    for (const id of ctx.samples.keys()) {
      const reward = want === 'said' ? lastWord(ctx, id) : ctx.label
      if (want === 'removed') ctx.removeSample(id)
      else ctx.setSampleReward(id, Number(reward))
    }
  }
}

function lastWord(ctx: GraderContext, id: string): unknown {
  return (ctx.samples.get(id)?.messages.at(-1) as { content?: unknown } | undefined)?.content
}
