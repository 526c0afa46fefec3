import { errorMessage } from '@osmosis/core'

import type { RolloutContext } from '../rollout-context.ts'
import { getToolCallInfo, type ToolCallInfo } from '../tools/tool-call-info.ts'
import { ToolArgumentError, ToolExecutionError } from '../tools/tool-errors.ts'
import {
  createToolErrorResult,
  createToolResult,
  type ToolResultMessage,
} from '../tools/tool-results.ts'
import { isAnsweredError } from './mcp-answered-error.ts'
import type { McpConnection } from './mcp-connection.ts'
import { contentText, resultText } from './mcp-result-text.ts'

/** Carries out the tool calls of one rollout, each counted and timed. */
export class McpToolCalls {
  readonly #ctx: RolloutContext
  readonly #connection: McpConnection
  readonly #names: ReadonlySet<string>

  constructor(ctx: RolloutContext, connection: McpConnection) {
    this.#ctx = ctx
    this.#connection = connection
    this.#names = new Set(ctx.tools.map((tool) => tool.function.name))
  }

  /**
   * Resolves with the message that answers the call. What goes wrong with a tool is for the policy
   * to read.
   *
   * @throws ToolExecutionError when the server gave no answer, or none that is valid
   */
  async execute(toolCall: unknown): Promise<ToolResultMessage> {
    const started = performance.now()
    const result = await this.#answer(toolCall)
    this.#ctx.recordToolCall({ latencyMs: performance.now() - started })
    return result
  }

  async #answer(toolCall: unknown): Promise<ToolResultMessage> {
    let call: ToolCallInfo
    try {
      call = getToolCallInfo(toolCall)
    } catch (error) {
      if (!(error instanceof ToolArgumentError)) throw error
      return createToolErrorResult(error.toolCallId, error.message)
    }
    const { toolCallId, name, args } = call
    if (!this.#names.has(name)) return createToolErrorResult(toolCallId, `Unknown tool: ${name}`)
    const { signal } = this.#ctx
    try {
      const result = await this.#connection.call(name, args, signal)
      if (!result.isError) return createToolResult(toolCallId, resultText(result))
      const said = contentText(result.content) || 'The tool failed and gave no reason'
      return createToolErrorResult(toolCallId, said)
    } catch (error) {
      const message = errorMessage(error)
      // A call that its own rollout ended says nothing about the server.
      const told = isAnsweredError(error) || signal.aborted
      if (told) return createToolErrorResult(toolCallId, message)
      // The policy did nothing to deserve this, and cannot do better next time.
      throw new ToolExecutionError(
        `The MCP server gave no valid answer to a call of ${name}: ${message}`,
        { toolCallId, toolName: name, cause: error },
      )
    }
  }
}
