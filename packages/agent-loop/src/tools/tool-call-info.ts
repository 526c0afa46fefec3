import { errorMessage, OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'

import { fieldsOf } from '../chat/message-fields.ts'

/** A tool call of the policy. */
export interface ToolCallInfo {
  /** Is repeated in the tool's result; `unknown` when the policy sent none. */
  readonly toolCallId: string
  /** Name of the function; empty when the policy sent none. */
  readonly name: string
  readonly args: Record<string, unknown>
}

/**
 * Reads a tool call of an assistant message, in chat completions form. Missing and blank arguments
 * become an empty object.
 *
 * @throws ToolArgumentError (code `tool_failed`) when the arguments are not a JSON object; its message
 * can be sent to the policy, see `createToolErrorResult`
 */
export function getToolCallInfo(toolCall: unknown): ToolCallInfo {
  const { function: called } = fieldsOf(toolCall)
  const { toolCallId, name: toolName } = namesOfCall(toolCall)
  try {
    const args = parseToolArguments(fieldsOf(called)['arguments'])
    return { toolCallId, name: toolName, args }
  } catch (error) {
    throw new ToolArgumentError(errorMessage(error), { toolCallId, toolName, cause: error })
  }
}

/** The id and name of a tool call, also when its arguments are invalid. */
export function namesOfCall(toolCall: unknown): Pick<ToolCallInfo, 'toolCallId' | 'name'> {
  const { id, function: called } = fieldsOf(toolCall)
  const { name } = fieldsOf(called)
  return {
    toolCallId: typeof id === 'string' ? id : 'unknown',
    name: typeof name === 'string' ? name : '',
  }
}

/** Whether a tool call has no arguments, or blank ones. */
export function hasNoArguments(toolCall: unknown): boolean {
  return isBlank(fieldsOf(fieldsOf(toolCall)['function'])['arguments'])
}

function isBlank(written: unknown): boolean {
  return written === undefined || (typeof written === 'string' && written.trim() === '')
}

/**
 * The arguments of a tool call as an object, from an object or its JSON text.
 *
 * @throws ToolArgumentError (code `tool_failed`) for anything else
 */
export function parseToolArguments(written: unknown): Record<string, unknown> {
  if (isBlank(written)) return {}
  if (typeof written !== 'string') {
    if (isJsonObject(written)) return written
    // These are the messages of the Python SDK, because policies are trained on them.
    throw new ToolArgumentError(`Expected str or dict arguments, got ${pythonTypeName(written)}`)
  }
  let parsed: unknown
  try {
    parsed = JSON.parse(written)
  } catch (error) {
    throw new ToolArgumentError(`Invalid JSON arguments: ${errorMessage(error)}`, { cause: error })
  }
  if (isJsonObject(parsed)) return parsed
  throw new ToolArgumentError(`Expected dict from JSON, got ${pythonTypeName(parsed)}`)
}

function pythonTypeName(value: unknown): string {
  if (value === null) return 'NoneType'
  if (Array.isArray(value)) return 'list'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float'
  return { string: 'str', boolean: 'bool' }[typeof value as string] ?? typeof value
}

/** A tool call could not be executed. Code `tool_failed`. */
export class ToolExecutionError extends OsmosisError {
  override readonly name: string = 'ToolExecutionError'
  /** Id of the call; `unknown` when the policy sent none. */
  readonly toolCallId: string
  /** Name of the function; empty when the policy sent none. */
  readonly toolName: string

  constructor(
    message: string,
    call: { toolCallId?: string; toolName?: string; cause?: unknown } = {},
  ) {
    super('tool_failed', message, 'cause' in call ? { cause: call.cause } : {})
    this.toolCallId = call.toolCallId ?? ''
    this.toolName = call.toolName ?? ''
  }
}

/** The policy wrote arguments that are not a JSON object. Code `tool_failed`. */
export class ToolArgumentError extends ToolExecutionError {
  override readonly name = 'ToolArgumentError'
}
