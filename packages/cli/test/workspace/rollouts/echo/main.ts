// Uses what plain type stripping would refuse: an enum, a parameter property and an import of a
// .js file that is a .ts file.
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import { normalise } from './normalise.js'

enum Name {
  Sample = 'echo',
}

class Conversation {
  constructor(readonly messages: ChatMessage[]) {}
}

export class EchoWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const rollout = requireRolloutContext('EchoWorkflow')
    const conversation = new Conversation([...ctx.prompt])
    rollout.registerSampleSource(Name.Sample, {
      getSample: (id) => toRolloutSample({ id, messages: conversation.messages }),
    })
    const { choices } = await rollout.policy(Name.Sample).complete({
      messages: conversation.messages,
    })
    if (choices[0]) conversation.messages.push(choices[0].message)
  }
}

export class EchoGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(normalise(lastAssistantText(ctx.sample)) === ctx.label ? 1 : 0)
  }
}
