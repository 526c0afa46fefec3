import {
  AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  Grader,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { LocalBackendOptions } from '@osmosis/server/execution'

import { graderScripts, workflowScripts } from './contract-scripts.ts'

// One entrypoint contains every workflow and grader of the contract, so that a backend that starts
// processes, which is slow, is opened once for many cases.

/** Runs the script that the first message of its prompt names. */
class ContractWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<unknown> {
    const [message] = ctx.prompt
    const scripts: Scripts<AgentWorkflowContext> = workflowScripts
    return scriptOf(scripts, message?.['content'])(ctx)
  }
}

/** Runs the script that its label names. */
class ContractGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const scripts: Scripts<GraderContext> = graderScripts
    await scriptOf(scripts, ctx.label)(ctx)
  }
}

type Scripts<Context> = Readonly<Record<string, (ctx: Context) => unknown>>

function scriptOf<T>(scripts: Scripts<T>, name: unknown): Scripts<T>[string] {
  const script = scripts[String(name)]
  if (script === undefined) throw new Error(`The backend contract has no script "${String(name)}".`)
  return script
}

/** The configurations that backends of the contract are opened with. */
export type ContractEntrypoint = 'unlimited' | 'narrow' | 'ungraded'

/**
 * Workflow, grader and limits by name. A backend that runs user code in another process imports
 * this there.
 */
export const contractEntrypoints: Readonly<
  Record<ContractEntrypoint, LocalBackendOptions<unknown, unknown>>
> = {
  unlimited: {
    workflow: ContractWorkflow,
    workflowConfig: defineWorkflowConfig({ name: 'contract' }),
    grader: ContractGrader,
  },
  narrow: {
    workflow: ContractWorkflow,
    workflowConfig: defineWorkflowConfig({ name: 'contract', concurrency: { maxConcurrent: 1 } }),
    grader: ContractGrader,
    graderConfig: defineGraderConfig({ name: 'contract', concurrency: { maxConcurrent: 1 } }),
    maxQueueDepth: 1,
  },
  ungraded: { workflow: ContractWorkflow },
}
