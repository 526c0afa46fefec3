import {
  AgentWorkflow,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  Grader,
  type GraderClass,
  type GraderContext,
  requireRolloutContext,
  toRolloutSample,
} from '@osmosis/core'

/** Registers a conversation of two messages, and has the policy say the second one. */
export async function askPolicy(ctx: AgentWorkflowContext, sampleId = 'main'): Promise<void> {
  const context = requireRolloutContext('askPolicy')
  const messages: unknown[] = [...ctx.prompt]
  context.registerSampleSource(sampleId, {
    getSample: (id) => toRolloutSample({ id, messages }),
  })
  const answer = await context.policy(sampleId).complete({ messages: [...ctx.prompt] as never })
  messages.push({ role: 'assistant', content: answer.choices[0]?.message.content })
}

export class AskOnce extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await askPolicy(ctx)
  }
}

export class OneForYes extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

/** A workflow class that does what `run` does. */
export function workflowOf(run: (ctx: AgentWorkflowContext) => unknown): AgentWorkflowClass {
  return class extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      await run(ctx)
    }
  }
}

/** A grader class that does what `grade` does. */
export function graderOf(grade: (ctx: GraderContext) => unknown): GraderClass {
  return class extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      await grade(ctx)
    }
  }
}
