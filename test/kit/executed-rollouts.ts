import {
  AgentWorkflow,
  getRolloutContext,
  Grader,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import {
  reportOf,
  type ExecutionBackend,
  type GradingOutcome,
  type ModelCallGates,
  type RolloutRequest,
  type WorkflowOutcome,
} from '@osmosis/protocol'

export function request(overrides: Partial<RolloutRequest> = {}): RolloutRequest {
  return {
    rolloutId: 'r',
    initialMessages: [{ role: 'user', content: 'hi' }],
    label: '4',
    metadata: null,
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: true,
    ...overrides,
  }
}

export interface ExecutedRollout {
  completion: WorkflowOutcome
  grading: GradingOutcome | undefined
}

/** Executes one rollout and returns what its events said. */
export async function run(
  backend: ExecutionBackend,
  overrides: Partial<RolloutRequest> = {},
  gates: ModelCallGates = {},
): Promise<ExecutedRollout> {
  const report = await reportOf(backend.execute(request(overrides), gates))
  return { completion: report.workflow, grading: report.grading }
}

/** Makes a workflow of a function. */
export function workflow(
  body: (ctx: AgentWorkflowContext) => unknown,
): new (config: unknown) => AgentWorkflow {
  return class extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      await body(ctx)
    }
  }
}

/** Makes a grader of a function. */
export function grader(body: (ctx: GraderContext) => unknown): new (config: unknown) => Grader {
  return class extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      await body(ctx)
    }
  }
}

/** Registers a sample with one assistant message under each name. */
export function registerSamples(...names: string[]): void {
  for (const name of names) {
    getRolloutContext()?.registerSampleSource(name, {
      getSample: (id) =>
        toRolloutSample({ id, messages: [{ role: 'assistant', content: `answer of ${id}` }] }),
    })
  }
}
