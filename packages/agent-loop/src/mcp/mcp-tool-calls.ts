import { errorMessage } from '@osmosis/core'

import type { RolloutContext } from '../rollout-context.ts'
import { getToolCallInfo, type ToolCallInfo } from '../tools/tool-call-info.ts'
import { ToolArgumentError, ToolExecutionError } from '../tools/tool-errors.ts'
import {
  createToolErrorResult,
  createToolResult,
  serializeToolResult,
  type ToolResultMessage,
} from '../tools/tool-results.ts'
import type { McpContent, McpToolResult } from './mcp-client.ts'
import type { McpConnection } from './mcp-connection.ts'

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
      if (isAnsweredError(error) || signal.aborted)
        return createToolErrorResult(toolCallId, message)
      // The policy did nothing to deserve this, and cannot do better next time.
      throw new ToolExecutionError(
        `The MCP server gave no valid answer to a call of ${name}: ${message}`,
        { toolCallId, toolName: name, cause: error },
      )
    }
  }
}

/**
 * What a tool gave, as text for the policy: its data where it gave some, otherwise its content.
 * Data with the only key `result` stands for that value: servers wrap what is not an object that way.
 */
function resultText({ structuredContent, content }: McpToolResult): string {
  if (!structuredContent) return contentText(content)
  const [key, ...others] = Object.keys(structuredContent)
  const wrapped = key === 'result' && others.length === 0
  return serializeToolResult(wrapped ? structuredContent['result'] : structuredContent)
}

/** The parts of a result, one below the other. */
function contentText(content: readonly McpContent[] = []): string {
  return content.map(partText).join('\n')
}

/** Policies read text: another kind of part is named, so that they know it was there. */
function partText({ type, text, resource, uri, mimeType }: McpContent): string {
  return text ?? resource?.text ?? `[${type}: ${resource?.uri ?? uri ?? mimeType ?? 'no text'}]`
}

/**
 * Codes of JSON-RPC with which clients report what no server said: that the connection was closed,
 * and that an answer took too long.
 */
const codesOfClients: ReadonlySet<unknown> = new Set([-32_000, -32_001])

/**
 * True for an error that an MCP server gave as its answer, and not one of the way to it. Such an
 * error has the `code` and `data` of JSON-RPC, though there may be nothing in `data`. The number
 * alone would not do: errors of HTTP have their status there.
 */
function isAnsweredError(error: unknown): boolean {
  if (!(error instanceof Error && 'code' in error && 'data' in error)) return false
  return Number.isInteger(error.code) && !codesOfClients.has(error.code)
}
