import { errorMessage } from '@osmosis/core'

import { ToolArgumentError } from './tool-errors.ts'

/** What a tool call of the policy asks for. */
export interface ToolCallInfo {
  /** Goes back in the tool's result; `unknown` when the policy gave none. */
  readonly toolCallId: string
  /** Name of the function; empty when the policy gave none. */
  readonly name: string
  readonly args: Record<string, unknown>
}

/**
 * Reads a tool call of an assistant message, in chat completions form. Missing and blank arguments
 * are those of a function that takes none.
 *
 * @throws ToolArgumentError (code `tool_failed`) when the arguments are not a JSON object; its message
 * is fit for the policy, see `createToolErrorResult`
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

/** What a tool call is known by, as {@link getToolCallInfo} gives it, whatever its arguments are. */
export function namesOfCall(toolCall: unknown): Pick<ToolCallInfo, 'toolCallId' | 'name'> {
  const { id, function: called } = fieldsOf(toolCall)
  const { name } = fieldsOf(called)
  return {
    toolCallId: typeof id === 'string' ? id : 'unknown',
    name: typeof name === 'string' ? name : '',
  }
}

/**
 * The arguments of a tool call as an object, whether they came as one or as its JSON text.
 *
 * @throws ToolArgumentError (code `tool_failed`) for anything else
 */
export function parseToolArguments(written: unknown): Record<string, unknown> {
  if (written === undefined || (typeof written === 'string' && written.trim() === '')) return {}
  if (typeof written !== 'string') {
    if (isRecord(written)) return written
    // The words of the Python SDK: policies are trained on these texts.
    throw new ToolArgumentError(`Expected str or dict arguments, got ${pythonTypeName(written)}`)
  }
  let parsed: unknown
  try {
    parsed = JSON.parse(written)
  } catch (error) {
    throw new ToolArgumentError(`Invalid JSON arguments: ${errorMessage(error)}`, { cause: error })
  }
  if (isRecord(parsed)) return parsed
  throw new ToolArgumentError(`Expected dict from JSON, got ${pythonTypeName(parsed)}`)
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function pythonTypeName(value: unknown): string {
  if (value === null) return 'NoneType'
  if (Array.isArray(value)) return 'list'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float'
  return { string: 'str', boolean: 'bool' }[typeof value as string] ?? typeof value
}
