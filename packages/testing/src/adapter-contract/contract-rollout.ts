import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  type GraderContext,
  isOsmosisError,
  type OsmosisError,
  RolloutContext,
  type RolloutLimits,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { reportOf, type GradingOutcome, type WorkflowOutcome } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'

import { expectRequests } from '../contract-expectations.ts'
import type { PolicyServer } from '../policy-server.ts'
import type { ReceivedRequest } from '../received-request.ts'
import type { ContractTool } from './adapter-rules.ts'

/** Bearer of every rollout of the suite. */
export const contractKey = 'contract-key'

/** A rollout whose policy is `server`. */
export function contractRollout(server: PolicyServer, rolloutId = 'rollout-1'): RolloutContext {
  return new RolloutContext({
    rolloutId,
    chatCompletionsUrl: server.url,
    apiKey: contractKey,
    wire: { stream: server.streams },
  })
}

/** Runs an agent in `rollout`, whose policy is `server` and expects this number of requests. */
export async function runWithRequests<T>(
  server: PolicyServer,
  expected: number,
  rollout: RolloutContext,
  run: () => Promise<T>,
): Promise<T> {
  const [settled] = await Promise.allSettled([rollout.run(run)])
  if (settled.status === 'fulfilled' || server.requests.length > expected) {
    expectRequests(server, expected)
  }
  if (settled.status === 'rejected') throw settled.reason
  return settled.value
}

/** The messages of a request, as they came over the wire. */
export function messagesOf(request: ReceivedRequest | undefined): ChatMessage[] {
  return (request?.body['messages'] ?? []) as ChatMessage[]
}

/** Adds two numbers and ignores other arguments. */
export const addTool: ContractTool = {
  name: 'add',
  description: 'Adds two numbers.',
  parameters: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
    additionalProperties: true,
  },
  execute: (input) => {
    const { a, b } = input as { a: number; b: number }
    return `sum: ${a + b}`
  },
}

/** The {@link OsmosisError} that a framework passed on or wrapped. */
export function osmosisErrorIn(error: unknown): OsmosisError | undefined {
  let link = error
  for (let depth = 0; depth < 8 && link instanceof Error; depth += 1) {
    if (isOsmosisError(link)) return link
    link = link.cause
  }
  return undefined
}

/** The outcome of a rollout that a backend executed with a grader that rewards every sample. */
export interface ContractOutcome {
  readonly workflow: WorkflowOutcome
  /** Without samples when the workflow failed. */
  readonly grading: GradingOutcome
}

/** Settings of a rollout of {@link executeRollout}. */
interface RolloutSettings {
  readonly agentTimeoutSeconds?: number | null
  readonly rolloutLimits?: RolloutLimits
}

/** Executes `run` as the workflow of a rollout. */
export async function executeRollout(
  server: PolicyServer,
  run: () => Promise<unknown>,
  { agentTimeoutSeconds = null, rolloutLimits = {} }: RolloutSettings = {},
): Promise<ContractOutcome> {
  class ContractWorkflow extends AgentWorkflow {
    override async run(): Promise<void> {
      await run()
    }
  }
  const backend = new LocalBackend({
    workflow: ContractWorkflow,
    workflowConfig: defineWorkflowConfig({ name: 'contract', rolloutLimits }),
    grader: RewardEverything,
  })
  const { workflow, grading } = await reportOf(
    backend.execute({
      rolloutId: 'rollout-1',
      initialMessages: [],
      label: 'label',
      metadata: null,
      chatCompletionsUrl: server.url,
      apiKey: contractKey,
      wire: { stream: server.streams },
      agentTimeoutSeconds,
      graderTimeoutSeconds: null,
      grade: true,
    }),
  )
  const { failure } = workflow
  return { workflow, grading: grading ?? { status: 'failure', failure, samples: new Map() } }
}

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}
