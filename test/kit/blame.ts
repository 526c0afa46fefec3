import { Grader, type GraderContext, type AgentWorkflowContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'

import { execute } from './adapter-rollouts.ts'

class RewardsAll extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

/**
 * Who is blamed for how a workflow ended: `nobody` when it ended well, the extra field of the samples when it was
 * graded as a fault of the policy, `failure` when the workflow failed, and `no reward` when only its grading is lost.
 *
 * @param replies - of the policy
 */
export async function blame(
  replies: Parameters<typeof startPolicyServer>[0],
  run: (ctx: AgentWorkflowContext) => Promise<unknown>,
): Promise<string> {
  await using server = await startPolicyServer(replies)
  const { workflow, grading } = await execute(server, run, { label: 'label', grader: RewardsAll })
  if (workflow.failure !== null) return 'failure'
  const [sample] = grading?.samples.values() ?? []
  if (grading?.failure !== null || sample?.reward !== 1) return 'no reward'
  const { limit_reached: limit, model_error: error } = sample.extraFields
  if (typeof limit === 'string') return `limit_reached: ${limit}`
  return typeof error === 'string' ? `model_error: ${error}` : 'nobody'
}
