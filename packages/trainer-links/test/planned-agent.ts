import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  GroupGrader,
  type GroupGraderContext,
  type RolloutGroup,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { LocalBackend } from '@osmosis/server/execution'

import { tokenAnswer } from '../../../test/kit/index.ts'
import type { FakeModel } from '../../../test/kit/trainers/index.ts'

/** What an agent does with a row, as the row says. */
export interface Plan {
  /** Default: 2. */
  readonly calls?: number
  /** Default: `main` alone. */
  readonly samples?: readonly string[]
  /** What happens after the calls; default: the workflow ends. */
  readonly afterwards?: 'throws' | 'throws at length' | 'throws a key' | 'hangs' | 'leaves a call'
  /** The reward of each sample; default: 1. */
  readonly reward?: number
  /** The step rewards of the grader; default: none. */
  readonly steps?: readonly number[]
  /** What the grader does; default: it gives the reward. */
  readonly grading?: 'removes' | 'removes the first' | 'throws' | 'hangs'
  /** Whether the conversation is changed before the last call. */
  readonly rewrites?: boolean
  /** Whether the second call repeats the prompt of the first. */
  readonly repeats?: boolean
  /** Whether each call is followed by one for a title, which is not training data. */
  readonly titles?: boolean
}

/** What a planned agent reports to a test. */
export interface PlannedAgent {
  readonly backend: LocalBackend
  /** The rollouts whose workflow was started, in that order. */
  readonly started: readonly string[]
  /** The rollouts that were stopped before they had ended. */
  readonly stopped: readonly string[]
  /** Maximum of rollouts that were running concurrently. */
  readonly mostRunning: number
}

/** A row with a plan, for a trainer's queue. */
export function row(plan: Plan = {}): Record<string, unknown> {
  return { question: 'What is it?', answer: 'it', ...plan }
}

export const model: FakeModel = (body) => tokenAnswer(body, { content: 'it is' })

/**
 * An agent that does what the row says.
 *
 * @param heard - called for each phase of a rollout: its calls are made, or its grading begins
 */
export function plannedAgent(
  heard: (phase: 'running' | 'grading', rolloutId: string) => void = () => {},
): PlannedAgent {
  const started: string[] = []
  const stopped: string[] = []
  let running = 0
  let mostRunning = 0

  class PlannedWorkflow extends AgentWorkflow {
    override async run(ctx: AgentWorkflowContext): Promise<void> {
      started.push(ctx.rolloutId)
      running += 1
      mostRunning = Math.max(mostRunning, running)
      try {
        await askAll(ctx)
        heard('running', ctx.rolloutId)
        if (planOf(ctx).afterwards === 'throws') throw new Error('the sandbox has exited')
        if (planOf(ctx).afterwards === 'throws at length') {
          throw new Error('the sandbox has exited '.repeat(100_000))
        }
        if (planOf(ctx).afterwards === 'throws a key') {
          throw new Error('refused: Bearer gateway-key')
        }
        if (planOf(ctx).afterwards === 'hangs') await stop(ctx)
        if (planOf(ctx).afterwards === 'leaves a call') {
          const left = requireRolloutContext('The agent').policy('title')
          left.complete({ messages: [{ role: 'user', content: 'A title?' }] }).catch(() => {})
        }
      } finally {
        running -= 1
      }
    }
  }

  class PlannedGrader extends Grader {
    override async grade(ctx: GraderContext): Promise<void> {
      const { grading, reward = 1, steps } = planOf(ctx)
      heard('grading', ctx.rolloutId)
      if (grading === 'throws') throw new Error('the judge is ill')
      if (grading === 'hangs') await stop(ctx)
      for (const [n, id] of [...ctx.samples.keys()].entries()) {
        const isRemoved = grading === 'removes' || (grading === 'removes the first' && n === 0)
        if (isRemoved) ctx.removeSample(id)
        else ctx.setSampleReward(id, reward)
        if (steps) ctx.setStepRewards(id, steps)
      }
    }
  }

  async function stop({ rolloutId, signal }: AgentWorkflowContext | GraderContext): Promise<void> {
    await new Promise((resolve) => {
      signal.addEventListener('abort', resolve)
    })
    stopped.push(rolloutId)
    throw new Error('it was stopped')
  }

  const workflowConfig = defineWorkflowConfig({ name: 'planned', concurrency: {} })
  return {
    backend: new LocalBackend({ workflow: PlannedWorkflow, workflowConfig, grader: PlannedGrader }),
    started,
    stopped,
    get mostRunning() {
      return mostRunning
    },
  }
}

/** An agent whose attempts are graded by their rank, with what its grader saw of the members of groups. */
export function comparingAgent(seen: (RolloutGroup | null)[]): Pick<PlannedAgent, 'backend'> {
  class ComparedWorkflow extends AgentWorkflow {
    override async run(ctx: AgentWorkflowContext): Promise<void> {
      await askAll(ctx)
    }
  }
  class Ranking extends GroupGrader {
    override async gradeGroup({ group, members }: GroupGraderContext): Promise<void> {
      for (const member of members) {
        seen.push({ ...group, attempt: member.attempt })
        member.setReward(member.attempt / members.length)
      }
    }
  }
  const workflowConfig = defineWorkflowConfig({ name: 'compared', concurrency: {} })
  const backend = new LocalBackend({ workflow: ComparedWorkflow, workflowConfig, grader: Ranking })
  return { backend }
}

async function askAll(ctx: AgentWorkflowContext): Promise<void> {
  const { calls = 2, samples = ['main'], repeats, rewrites, titles } = planOf(ctx)
  const context = requireRolloutContext('the test')
  for (const sampleId of samples) {
    const messages = [...ctx.prompt, { role: 'user', content: sampleId }] as ChatMessage[]
    context.registerSampleSource(sampleId, {
      getSample: (id) => toRolloutSample({ id, messages }),
    })
    for (let n = 0; n < calls; n += 1) {
      if (rewrites && n === calls - 1) messages.splice(0, 1, { role: 'user', content: 'In short.' })
      const answer = await context.policy(sampleId).complete({ messages })
      if (titles) {
        const title = { messages: [{ role: 'user', content: `A title for ${n}?` }] }
        await context.policy(sampleId).complete(title, { purpose: 'title', trainable: false })
      }
      if (repeats) continue
      messages.push(...answer.choices.map(({ message }) => message))
      messages.push({ role: 'user', content: `Continue, ${n}.` })
    }
  }
}

function planOf(ctx: { readonly metadata: unknown }): Plan {
  return ctx.metadata ?? {}
}
