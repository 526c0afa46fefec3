import { OsmosisError } from '@osmosis/core'

/** Which tool call an error is about. */
export interface FailedToolCall {
  /** Id of the call; `unknown` when the policy gave none. */
  readonly toolCallId: string
  /** Name of the function; empty when the policy gave none. */
  readonly toolName: string
}

/** A tool call could not be carried out. Code `tool_failed`. */
export class ToolExecutionError extends OsmosisError {
  override readonly name: string = 'ToolExecutionError'
  readonly toolCallId: string
  readonly toolName: string

  constructor(message: string, call: Partial<FailedToolCall> & { cause?: unknown } = {}) {
    super('tool_failed', message, 'cause' in call ? { cause: call.cause } : {})
    this.toolCallId = call.toolCallId ?? ''
    this.toolName = call.toolName ?? ''
  }
}

/** The policy wrote arguments that are not a JSON object. Code `tool_failed`. */
export class ToolArgumentError extends ToolExecutionError {
  override readonly name = 'ToolArgumentError'
}
