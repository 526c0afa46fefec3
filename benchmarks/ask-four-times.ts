// What servers under test execute: a workflow that asks the policy four times, and a grader that rewards everything.
import { setTimeout as sleep } from 'node:timers/promises'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

export const calls = 4

/** Waits first for the time in its metadata. Milliseconds. */
class AskFourTimes extends AgentWorkflow {
  override async run({ prompt, metadata }: AgentWorkflowContext): Promise<void> {
    const rollout = requireRolloutContext('AskFourTimes')
    const waitMs = metadata?.['wait_ms']
    if (waitMs !== undefined) await sleep(Number(waitMs))
    const messages: ChatMessage[] = [...prompt]
    rollout.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages }) })
    for (let call = 0; call < calls; call += 1) {
      const answer = await rollout.policy('main').complete({ messages })
      const [choice] = answer.choices
      if (choice === undefined) throw new Error('no answer')
      messages.push(choice.message, { role: 'user', content: 'Go on.' })
    }
  }
}

class OneForAll extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

export const askFourTimes = {
  workflow: AskFourTimes,
  // A config without a limit: unlimited.
  workflowConfig: defineWorkflowConfig({ name: 'ask-four-times' }),
  grader: OneForAll,
}
