// What the workers of the training run execute: an agent that does what its row says.
import { setTimeout as sleep } from 'node:timers/promises'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import type { PlannedRow } from './planned-rows.ts'

export class PlannedWorkflow extends AgentWorkflow {
  override async run(ctx: AgentWorkflowContext): Promise<void> {
    const { kind, calls, thinkMs } = rowOf(ctx)
    const rollout = requireRolloutContext('the planned agent')
    for (const name of kind === 'two samples' ? ['first', 'second'] : ['main']) {
      const policy = rollout.registerPolicySample(name)
      const messages = [...ctx.prompt, { role: 'user', content: name }] as ChatMessage[]
      for (let n = 0; n < (kind === 'calls no model' ? 0 : calls); n += 1) {
        await sleep(thinkMs, undefined, { signal: ctx.signal })
        const { choices } = await policy.complete({ messages })
        messages.push(...choices.map(({ message }) => message))
        messages.push({ role: 'user', content: `And ${n}?` })
      }
    }
    if (kind === 'throws') throw new Error('as planned')
  }
}

export class PlannedGrader extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    const { kind, reward } = rowOf(ctx)
    if (kind === 'judge throws') throw new Error('as planned')
    for (const id of ctx.samples.keys()) {
      if (kind === 'removed') ctx.removeSample(id)
      else ctx.setSampleReward(id, reward)
    }
  }
}

export const config = defineWorkflowConfig({ name: 'planned', concurrency: {} })

function rowOf(ctx: { readonly metadata: unknown }): PlannedRow {
  return ctx.metadata as PlannedRow
}
