import type { OsmosisErrorCode } from '@osmosis/core'

import type { EntrypointKind } from '../child/served-workflow.ts'
import type { FindingDetails } from './finding.ts'
import { policyAdvice } from './framework-advice.ts'
import { page } from './pages.ts'

/** What to change, and where to read about it. */
export type Change = Pick<FindingDetails, 'advice' | 'page'>

const ofWorkflow = page('errorsOfWorkflows')
const ofGrader = page('errorsOfGraders')

/** What to change about errors of the SDK that a rollout may end with. */
const changes: Partial<Record<OsmosisErrorCode, Change>> = {
  no_rollout_context: {
    advice: 'Move what needs the rollout into run() of the workflow, or give its model a fallback.',
    page: ofWorkflow,
  },
  wrong_rollout_context: {
    advice: 'Make it inside run() of the workflow, new for each rollout.',
    page: ofWorkflow,
  },
  placeholder_model: {
    advice: 'Give it to the agent of the adapter, in place of the Agent of the framework.',
    page: ofWorkflow,
  },
  missing_session: {
    advice:
      'Make a session inside run() of the workflow, and pass it to each run() of the framework, also to one that continues.',
    page: ofWorkflow,
  },
  pending_approval: {
    advice:
      'Answer approvals inside run() of the workflow, e.g. as ctx.metadata of the row says, and resume the run.',
    page: ofWorkflow,
  },
  duplicate_sample: {
    advice: 'Give each agent or session a name of its own, and return no messages beside them.',
    page: ofWorkflow,
  },
  no_samples: {
    advice: 'Let the agent ask the policy through its adapter, and await its run to the end.',
    page: ofWorkflow,
  },
  user_code_exit: { advice: 'Throw an error instead.', page: ofWorkflow },
  stray_error: {
    advice: 'Await everything that run() starts, and catch errors in timers and events.',
    page: ofWorkflow,
  },
  rollout_ended: {
    advice: 'Await everything that run() starts, and read streams to their end.',
    page: ofWorkflow,
  },
  timeout: {
    advice: 'Raise agent_workflow_timeout_s or grader_timeout_s, or make the agent faster.',
    page: ofWorkflow,
  },
  limit_reached: { advice: 'Raise the limit in rolloutLimits.', page: page('limits') },
  unknown_sample: { advice: 'Use the ids of ctx.samples in the grader.', page: ofGrader },
  invalid_reward: {
    advice: 'Give a finite number: look for a field that is not there, and for a division by zero.',
    page: ofGrader,
  },
  missing_reward: {
    advice: 'Reward every sample in grade(), or take it out with ctx.removeSample(id).',
    page: ofGrader,
  },
  no_output: { advice: 'Return the object that the grader reads from run().', page: ofGrader },
  not_graded: {
    advice: 'Write ground_truth or metadata into the row, and export a grader.',
    page: ofGrader,
  },
  judge_failed: { advice: 'Ask the judge in another way, or ask another one.', page: ofGrader },
  invalid_dataset: {
    advice:
      'Write one row for each task, with user_prompt and ground_truth, and correct what is named.',
    page: page('datasets'),
  },
  invalid_config: { advice: 'Correct what the message names.', page: page('config') },
  invalid_entrypoint: { advice: 'Correct the entrypoint.', page: page('workflows') },
  policy_http_error: {
    advice: 'Check the address of the policy, its key and the name of the model.',
    page: page('errorsOfPolicies'),
  },
  policy_unreachable: {
    advice: 'Check that the policy runs, and its address.',
    page: page('errorsOfPolicies'),
  },
  policy_stream_error: {
    advice: 'Look at the log of the policy.',
    page: page('errorsOfPolicies'),
  },
}

/** What to change about an error with this code: one without a code was thrown by user code. */
export function changeFor(code: string | undefined, kind: EntrypointKind = 'workflow'): Change {
  const known = code === undefined ? undefined : changes[code as OsmosisErrorCode]
  const about = page(kind === 'workflow' ? 'blame' : 'agentLoops')
  return known ?? { advice: 'Correct the code that threw it.', page: about }
}

/** What to change about a dataset that cannot be read for this reason. */
export function changeOfDataset(reason: string): Change {
  const change = changeFor('invalid_dataset')
  if (!reason.includes('missing required columns')) return change
  return {
    ...change,
    advice:
      'Leave the rows as they are, and name their columns in [columns] of the config: prompt, label, and metadata for what the agent needs besides. Only where no column is the prompt or the answer, write it as user_prompt or ground_truth.',
  }
}

/** Of providers and frameworks, about a model of their own that they are asked for. */
const aboutKey = /\b(?:api[ _-]?key|credentials?)\b/i

/**
 * What to change about a rollout that failed for this reason.
 *
 * @param folder - of the project
 */
export function changeOfRollout(
  { code, reason }: { readonly code: string | undefined; readonly reason: string },
  kind: EntrypointKind,
  folder: string,
): Change {
  if (code !== undefined && Object.hasOwn(changes, code)) return changeFor(code, kind)
  if (!aboutKey.test(reason)) return changeFor(undefined, kind)
  return {
    advice: `Look for an agent that has kept its old model. ${policyAdvice(folder)} One whose answers are not to be trained gets trainable: false.`,
    page: ofWorkflow,
  }
}

/** What to change about a policy that did not answer for this reason. */
export function changeOfPolicy(reason: string): Change {
  if (!reason.includes('script_failed')) return changeFor('policy_http_error')
  return {
    advice: 'Correct the module of the policy: its function threw this error.',
    page: page('errorsOfPolicies'),
  }
}
