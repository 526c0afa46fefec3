import { isDeepStrictEqual } from 'node:util'

import type { PolicyFault, RolloutContext } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import { type AssistantMessage, argumentsObject } from '@osmosis/core/policy'
import { recordOf } from '@osmosis/core/workflow'

import { originOf } from './watched-runs.ts'

/** The fields by which errors of LangChain and LangGraph are known, and tell which answer they are about. */
interface FrameworkError extends Error {
  readonly lc_error_code?: string
  readonly llmOutput?: string
  readonly toolName?: string
  readonly toolNames?: readonly string[]
  readonly toolCall?: { readonly id?: string }
  readonly output?: unknown
  readonly matches?: readonly { readonly text?: string }[]
  readonly stage?: string
  readonly content?: string
}

/**
 * The fault that an error of LangChain or LangGraph reports, if it is about an answer of the policy, or ends a run in
 * which the policy was called. The classes are those of packages that a program need not have, so they are known by
 * their names and fields; what decides is the answer or the run.
 */
export function frameworkFault(
  error: FrameworkError,
  rollout: RolloutContext,
): PolicyFault | undefined {
  const { answers } = recordOf(rollout)
  if (error.lc_error_code === 'GRAPH_RECURSION_LIMIT') {
    return originOf(error, rollout)?.isOfPolicy ? { limit: 'recursion_limit' } : undefined
  }
  switch (nameOf(error)) {
    case 'ModelCallLimitMiddlewareError':
      return endedBy('ModelCallLimitMiddleware', error, rollout)
        ? { limit: 'model_calls' }
        : undefined
    case 'ToolCallLimitExceededError':
      return endedBy('ToolCallLimitMiddleware', error, rollout)
        ? { limit: 'tool_calls' }
        : undefined
    case 'OutputParserException':
      return isText(answers, error.llmOutput) ? { error: 'output' } : undefined
    case 'StructuredOutputParsingError':
      return areCalled(answers, [error.toolName]) || endsAnsweredStep(error, rollout)
        ? { error: 'output' }
        : undefined
    case 'MultipleStructuredOutputsError':
      return areCalled(answers, error.toolNames ?? []) ? { error: 'output' } : undefined
    case 'ToolInvocationError':
      return answers.some((answer) => hasCall(answer, error.toolCall?.id))
        ? { error: 'tool_call' }
        : undefined
    case 'ToolInputParsingException':
      return areArguments(answers, error.output) ? { error: 'tool_call' } : undefined
    case 'PIIDetectionError':
      return answers.some((answer) => isSaid(answer, error.matches))
        ? { error: 'output' }
        : undefined
    case 'OpenAIModerationError':
      return error.stage === 'output' && isText(answers, error.content)
        ? { error: 'output' }
        : undefined
    default:
      return undefined
  }
}

/** Classes of `langchain` have no names of their own in every version. */
function nameOf(error: Error): string {
  return error.name === 'Error' ? error.constructor.name : error.name
}

/** Whether a middleware ended an agent of the policy with this error. */
function endedBy(middleware: string, error: Error, rollout: RolloutContext): boolean {
  const origin = originOf(error, rollout)
  return origin?.isOfPolicy === true && origin.runName?.startsWith(middleware) === true
}

/**
 * Whether an error ended the step of an agent in which the policy answered. Without a tool for the output, LangChain's
 * error names nothing of the answer.
 */
function endsAnsweredStep(error: FrameworkError, rollout: RolloutContext): boolean {
  const origin = originOf(error, rollout)
  const isOfAgent = typeof error.toolName === 'string' && origin?.runName === 'model_request'
  return isOfAgent && origin.isOfStep
}

/** Whether a text is an answer, or the arguments of a call of one. */
function isText(answers: readonly AssistantMessage[], text: string | undefined): boolean {
  if (text === undefined) return false
  return answers.some(({ content }) => content === text) || areArguments(answers, text)
}

function areArguments(answers: readonly AssistantMessage[], written: unknown): boolean {
  const value = typeof written === 'string' ? argumentsObject(written) : written
  if (!isJsonObject(value)) return false
  return answers.some(({ tool_calls: calls = [] }) =>
    calls.some(({ function: { arguments: json } }) =>
      isDeepStrictEqual(argumentsObject(json), value),
    ),
  )
}

/** Whether one answer has calls of all these tools. */
function areCalled(
  answers: readonly AssistantMessage[],
  names: readonly (string | undefined)[],
): boolean {
  return answers.some(({ tool_calls: calls = [] }) => {
    const called = calls.map((call) => call.function.name)
    return names.length > 0 && names.every((name) => name !== undefined && called.includes(name))
  })
}

function hasCall({ tool_calls: calls = [] }: AssistantMessage, id: string | undefined): boolean {
  return id !== undefined && calls.some((call) => call.id === id)
}

/** Whether an answer contains what a middleware found in it. */
function isSaid(
  { content }: AssistantMessage,
  found: readonly { readonly text?: string }[] = [],
): boolean {
  const said = typeof content === 'string' ? content : ''
  return found.length > 0 && found.every(({ text = '' }) => text !== '' && said.includes(text))
}
