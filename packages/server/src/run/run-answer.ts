import { errorMessage, type PolicyCall, type RolloutSample } from '@osmosis/core'
import { missingOf, sampledLogprobs } from '@osmosis/protocol/trajectory'
import type {
  CallReportBody,
  RunCallBody,
  RunResponseBody,
  RunSampleBody,
} from '@osmosis/protocol/wire'

import { oneReward, type RewardRule, type ExecutionOutcome } from '../execution/rollout-end.ts'
import { callReports } from '../rollout/callback-bodies.ts'

/** How the outcome of a rollout becomes one number. */
export interface RunAnswerRules {
  /** The reward of a rollout with several samples; default: exactly one sample must remain. */
  reward?: RewardRule | undefined
}

/** What {@link toRunAnswer} also needs. */
interface RunAnswerParts extends RunAnswerRules {
  /** From the request to the end of the rollout. */
  readonly seconds: number
  readonly traced: boolean
}

/** Maximum number of token ids and logprobs in an answer: about 80 MB of JSON. */
const maxNumbers = 8_000_000

/** The body that answers `POST /run`: JSON. */
export function toRunAnswer(
  end: ExecutionOutcome,
  { seconds, reward, traced }: RunAnswerParts,
): string {
  const body: RunResponseBody = {
    ...endFields(end, reward, traced),
    agent_metrics: { total_time: seconds },
  }
  return JSON.stringify(body)
}

type EndFields = Omit<RunResponseBody, 'agent_metrics'>

function endFields(
  end: ExecutionOutcome,
  rule: RewardRule | undefined,
  traced: boolean,
): EndFields {
  switch (end.kind) {
    case 'rewarded':
      try {
        // A trace has no model calls of samples that were removed.
        const reward = oneReward(traced ? { ...end, removed: [] } : end, rule)
        const trace = traced ? { trace: toTrace(end.samples) } : {}
        return { reward, exit_status: 'completed', eval_report: {}, ...trace }
      } catch (error) {
        return failed('validation_error', errorMessage(error))
      }
    case 'removed':
      return { exit_status: 'removed', eval_report: {} }
    case 'failed':
      return failed(end.category, end.message)
    case 'cancelled':
      return { exit_status: 'cancelled', eval_report: { err_message: end.message } }
  }
}

function failed(err_category: string, err_message: string): EndFields {
  return { exit_status: 'failed', eval_report: { err_message, err_category } }
}

function toTrace(samples: ReadonlyMap<string, RolloutSample>): RunSampleBody[] {
  let numbers = 0
  return [...samples.values()].map((sample) => {
    const { id, reward } = sample
    const answered = callReports(sample)
    for (const [{ promptTokenIds, completionTokenIds }] of answered) {
      numbers += (promptTokenIds?.length ?? 0) + 2 * (completionTokenIds?.length ?? 0)
    }
    if (numbers > maxNumbers) {
      throw new RangeError(
        `The trace of this rollout has more than ${maxNumbers} token ids and logprobs, which is the limit of an answer. Make fewer model calls, or train with an endpoint that records them itself.`,
      )
    }
    let previous: PolicyCall | undefined
    const calls = answered.map(([call, report]) => {
      const traced = toCall(call, report, previous)
      if (call.trainable) previous = call
      return traced
    })
    return {
      sample_id: id,
      // Remaining samples have a reward: `ExecutionOutcome` guarantees it.
      reward: reward ?? 0,
      calls,
    }
  })
}

/** @param previous - the call of the sample before it that is training data; undefined for the first one */
function toCall(
  call: PolicyCall,
  report: CallReportBody,
  previous: PolicyCall | undefined,
): RunCallBody {
  const missing = call.trainable ? missingOf(call) : undefined
  return {
    ...report,
    prompt_token_ids: call.promptTokenIds && [...call.promptTokenIds],
    completion_token_ids: call.completionTokenIds && [...call.completionTokenIds],
    logprobs: sampledLogprobs(call),
    extends_previous: previous === undefined || extendsTokens(previous, call),
    finish_reason: call.finishReason,
    ...(missing === undefined ? {} : { trainable: false, untrainable_reason: missing }),
  }
}

/** Whether the prompt begins with the prompt and the answer of another call; null where ids are missing. */
function extendsTokens(
  previous: PolicyCall,
  { promptTokenIds: prompt }: PolicyCall,
): boolean | null {
  const { promptTokenIds, completionTokenIds } = previous
  if (prompt === null || promptTokenIds === null || completionTokenIds === null) return null
  const known = [...promptTokenIds, ...completionTokenIds]
  return known.length < prompt.length && known.every((id, at) => id === prompt[at])
}
