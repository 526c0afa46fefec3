// What the workers benchmark executes: a workflow that computes for a while, and one that waits for
// its policy four times.
import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import { calls } from './ask-four-times.ts'

const steps = 2_000_000

/** Computes or waits, as its prompt says. */
class Workload extends AgentWorkflow {
  override async run({ prompt }: AgentWorkflowContext): Promise<object> {
    const [kind] = prompt
    if (kind?.['content'] === 'compute') compute()
    else await ask()
    return { messages: [{ role: 'assistant', content: 'done' }] }
  }
}

class OneForAll extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

export const workload = {
  workflow: Workload,
  // A config without a limit: unlimited.
  workflowConfig: defineWorkflowConfig({ name: 'workload' }),
  grader: OneForAll,
}

/** About 20 ms of a processor of 2024. */
function compute(): void {
  let value = 1
  for (let step = 0; step < steps; step += 1) value = (value * 1.000_001 + step) % 1_000_003
  if (value < 0) throw new Error('never, but no compiler knows that')
}

async function ask(): Promise<void> {
  const policy = requireRolloutContext('Workload').policy('main')
  const messages: ChatMessage[] = [{ role: 'user', content: 'What is 12 times 34? '.repeat(40) }]
  for (let call = 0; call < calls; call += 1) {
    const [choice] = (await policy.complete({ messages })).choices
    if (choice === undefined) throw new Error('no answer')
    messages.push(choice.message, { role: 'user', content: 'Go on.' })
  }
}
