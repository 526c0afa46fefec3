import type { PolicyFault, RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

import type { GenerateResult } from './language-model-types.ts'
import { providerName } from './wire-conversion.ts'

/** An answer of the policy as the SDK got it. */
interface GivenAnswer {
  /** This object is in all that the SDK says about the answer. Ids and texts need not differ between models. */
  readonly timestamp: Date | undefined
  readonly text: string
  readonly toolCalls: readonly { readonly toolName: string; readonly input: string }[]
}

/** What the SDK was given by models of the policy in one rollout. */
interface Given {
  readonly answers: GivenAnswer[]
  /** Whether the last step of the SDK was the policy's, and did not end as a whole answer does. */
  isLastStepUnfinished: boolean
}

const rollouts = sharedByCopies('ai-sdk.given-answers', () => new WeakMap<RolloutContext, Given>())

function givenIn(rollout: RolloutContext): Given {
  const known = rollouts.get(rollout)
  if (known !== undefined) return known
  const given: Given = { answers: [], isLastStepUnfinished: false }
  rollouts.set(rollout, given)
  return given
}

/** Notes an answer that is training data, so that errors about it are known to be about the policy. */
export function noteAnswer(rollout: RolloutContext, { response, content }: GenerateResult): void {
  givenIn(rollout).answers.push({
    timestamp: response?.timestamp,
    text: content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
    toolCalls: content.flatMap((part) =>
      part.type === 'tool-call' ? [{ toolName: part.toolName, input: part.input }] : [],
    ),
  })
}

/** Notes how a step of any model ended, because the SDK's error for a missing output says nothing of the model. */
export function noteStepEnd(
  rollout: RolloutContext,
  step: { readonly isOfPolicy: boolean; readonly finishReason: string | undefined },
): void {
  givenIn(rollout).isLastStepUnfinished = step.isOfPolicy && step.finishReason !== 'stop'
}

/** The fields of the SDK's errors that tell which answer they are about. */
interface SdkError extends Error {
  readonly response?: { readonly timestamp?: Date }
  readonly toolName?: string
  readonly toolInput?: string
  readonly provider?: string
  readonly content?: GenerateResult['content']
}

/** The fault that an error of the SDK reports, if it is about an answer of the policy. */
export function sdkFault(error: SdkError, rollout: RolloutContext): PolicyFault | undefined {
  const { answers, isLastStepUnfinished } = givenIn(rollout)
  if (isOfSdk(error, 'AI_NoObjectGeneratedError')) {
    const { timestamp } = error.response ?? {}
    const isAbout = (answer: GivenAnswer): boolean => answer.timestamp === timestamp
    return timestamp !== undefined && answers.some(isAbout) ? { error: 'output' } : undefined
  }
  if (isOfSdk(error, 'AI_NoOutputGeneratedError')) {
    return isLastStepUnfinished ? { error: 'output' } : undefined
  }
  if (isOfSdk(error, 'AI_ToolChoiceViolationError')) {
    return error.provider === providerName && answers.some((answer) => isWhole(answer, error))
      ? { error: 'tool_call' }
      : undefined
  }
  if (isOfSdk(error, 'AI_NoSuchToolError') || isOfSdk(error, 'AI_InvalidToolInputError')) {
    const { toolName, toolInput } = error
    const isMade = answers.some(({ toolCalls }) =>
      toolCalls.some(
        (call) =>
          call.toolName === toolName && (toolInput === undefined || call.input === toolInput),
      ),
    )
    return isMade ? { error: 'tool_call' } : undefined
  }
  return undefined
}

/** By the mark that the SDK puts on its errors, which is the same in all copies of it. */
function isOfSdk(error: Error, name: string): boolean {
  return Symbol.for(`vercel.ai.error.${name}`) in error
}

/** Whether the content of an error is this answer. */
function isWhole({ text, toolCalls }: GivenAnswer, { content = [] }: SdkError): boolean {
  const said = content.map((part) => (part.type === 'text' ? part.text : '')).join('')
  const called = content.flatMap((part) => (part.type === 'tool-call' ? [part.toolName] : []))
  return said === text && called.length === toolCalls.length
}
