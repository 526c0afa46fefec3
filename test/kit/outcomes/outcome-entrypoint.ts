import dns from 'node:dns'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { LocalBackendOptions } from '@osmosis/server/execution'

import { graders, workflows } from './outcome-scripts.ts'

/** What a rollout of the table does: its metadata. */
export interface Played {
  readonly workflow?: keyof typeof workflows
  readonly grader?: keyof typeof graders
  /** Its row does not fit the workflow's schema unless this is a number. */
  readonly count?: number | string
}

/** How the ids of rollouts begin for which the workflow cannot be constructed. */
export const unconstructed = 'unconstructed'

class PlayedWorkflow extends AgentWorkflow {
  constructor(config: unknown) {
    super(config)
    const { rolloutId } = requireRolloutContext('the outcome table')
    if (rolloutId.startsWith(unconstructed)) throw new Error('not today')
  }

  async run(ctx: AgentWorkflowContext): Promise<void> {
    const { workflow = 'asks once' } = (ctx.metadata ?? {}) as Played
    await workflows[workflow](ctx)
  }
}

class PlayedGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const { grader = 'gives each sample 1' } = (ctx.metadata ?? {}) as Played
    await graders[grader](ctx)
  }
}

const workflowConfig = defineWorkflowConfig({
  name: 'outcomes',
  policyLimits: { awaySeconds: 0 },
  metadata: {
    '~standard': {
      version: 1,
      vendor: 'outcomes',
      validate: (value: unknown) => {
        const { count = 0 } = (value ?? {}) as Played
        const issues = [{ message: 'expected a number', path: ['count'] }]
        return typeof count === 'number' ? { value: value as Played } : { issues }
      },
    },
  },
})

/** With a grader, and without one. */
export type OutcomeEntrypoint = 'graded' | 'ungraded'

export const outcomeEntrypoints: Record<
  OutcomeEntrypoint,
  LocalBackendOptions<unknown, unknown>
> = {
  graded: { workflow: PlayedWorkflow, workflowConfig, grader: PlayedGrader },
  ungraded: { workflow: PlayedWorkflow, workflowConfig },
}

// Only the lookup shows where this name leads: to the metadata of a cloud's machine.
const real = dns.lookup
dns.lookup = ((name: string, ...rest: [object, (...answer: unknown[]) => void]) => {
  if (name !== 'policy.test') return (real as (...given: unknown[]) => void)(name, ...rest)
  queueMicrotask(() => rest[1](null, [{ address: '169.254.169.254', family: 4 }]))
}) as typeof dns.lookup
