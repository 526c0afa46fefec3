import { errorMessage, OsmosisError } from '@osmosis/core'

import { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import type { RolloutContext } from '../rollout-context.ts'
import type { RolloutRequest } from '../rollout-request.ts'
import type { RolloutResult } from '../rollout-result.ts'
import { executeToolCalls } from '../tools/execute-tool-calls.ts'
import type { ToolInput } from '../tools/function-tool.ts'
import { getToolCallInfo, type ToolCallInfo } from '../tools/tool-call-info.ts'
import { ToolArgumentError, ToolExecutionError } from '../tools/tool-errors.ts'
import {
  createToolErrorResult,
  createToolResult,
  serializeToolResult,
  type ToolResultMessage,
} from '../tools/tool-results.ts'
import type { McpClient, McpContent, McpToolResult } from './mcp-client.ts'

/** The longest time a timer of Node.js can wait: 24 days. Milliseconds. */
const longestTimerMs = 2 ** 31 - 1

/** How long a result waits for the end of the connection it came over. Milliseconds. */
const longestCloseMs = 5000

/** A connection to an MCP server that is open as long as the work it was opened for. */
class McpConnection {
  readonly #client: McpClient

  private constructor(client: McpClient) {
    this.#client = client
  }

  /** Opens a connection for `work`, and closes it whatever comes of that. */
  static async during<T>(
    open: () => Promise<McpClient>,
    work: (connection: McpConnection) => Promise<T>,
  ): Promise<T> {
    const client = await open()
    try {
      return await work(new McpConnection(client))
    } finally {
      await close(client)
    }
  }

  /**
   * The tools of all pages of the server's list. Their schemas stay as they are.
   *
   * @throws OsmosisError with code `protocol_error` when the list leads back to a page it had
   */
  async tools(): Promise<ToolInput[]> {
    const tools: ToolInput[] = []
    const asked = new Set<string | undefined>()
    let cursor: string | undefined
    do {
      if (asked.has(cursor)) {
        const said = `The MCP server's list of tools has no end: nextCursor '${cursor}' came twice`
        throw new OsmosisError('protocol_error', `${said}; each page must lead to a new one.`)
      }
      asked.add(cursor)
      const page = await this.#client.listTools({ cursor })
      for (const { name, description, inputSchema } of page.tools) {
        const text = description || `Tool: ${name}`
        tools.push({
          type: 'function',
          function: { name, description: text, parameters: inputSchema },
        })
      }
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return tools
  }

  /** Calls a tool. It may take as long as its rollout: clients have a time limit of their own. */
  async call(
    name: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<McpToolResult> {
    const options = { signal, timeout: longestTimerMs }
    return this.#client.callTool({ name, arguments: args }, undefined, options)
  }
}

/** Never rejects: a connection that does not end well takes nothing back of what came over it. */
async function close(client: McpClient): Promise<void> {
  const { promise: enough, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, longestCloseMs).unref()
  // A function of its own, because a client may also throw right away.
  const closed = (async () => client.close())().catch(() => undefined)
  await Promise.race([closed, enough])
  clearTimeout(timer)
}

/** Carries out the tool calls of one rollout, each counted and timed. */
class McpToolCalls {
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

/** Options of {@link mcpAgentLoop}. */
export interface McpAgentLoopOptions {
  /** Says which agent this is, in health answers and logs. Not empty. */
  readonly name: string
  /**
   * Connects to the server: once to ask for the tools of a rollout, and once more to run it. Each
   * connection is closed when that is done, so each must be one of its own.
   */
  readonly connect: (request: RolloutRequest) => Promise<McpClient>
  /** Most tool calls of one answer concurrently; default: all of them. */
  readonly maxConcurrentTools?: number | undefined
}

/**
 * An agent loop with the tools of an MCP server: it asks the policy, has the server carry out what
 * that calls for, and ends when there are no more calls or a limit of the rollout is reached. It
 * gives no reward.
 *
 * @throws RangeError for a `maxConcurrentTools` that is not a whole number of at least 1
 */
export function mcpAgentLoop(options: McpAgentLoopOptions): RolloutAgentLoop {
  const { maxConcurrentTools: most = 1 } = options
  if (!(Number.isInteger(most) && most >= 1)) {
    throw new RangeError(`maxConcurrentTools must be a whole number of at least 1, got ${most}`)
  }
  return new McpAgentLoop(options)
}

/**
 * The two connections of a rollout have nothing to do with each other. A rollout may wait for its
 * turn between them, or never get it: a connection that was kept in the meantime would be one
 * server process for every rollout in the queue, and left open by those that are not accepted.
 */
class McpAgentLoop extends RolloutAgentLoop {
  readonly name: string
  readonly #options: McpAgentLoopOptions

  constructor(options: McpAgentLoopOptions) {
    super()
    this.name = options.name
    this.#options = options
  }

  async getTools(request: RolloutRequest): Promise<ToolInput[]> {
    return McpConnection.during(
      async () => this.#options.connect(request),
      async (connection) => connection.tools(),
    )
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    return McpConnection.during(
      async () => this.#options.connect(ctx.request),
      async (connection) => this.#converse(ctx, new McpToolCalls(ctx, connection)),
    )
  }

  async #converse(ctx: RolloutContext, tools: McpToolCalls): Promise<RolloutResult> {
    const { maxTurns, maxTokensTotal, completionParams } = ctx.request
    const options = { maxConcurrent: this.#options.maxConcurrentTools, signal: ctx.signal }
    const messages = [...ctx.request.messages]
    const end = (finishReason: string): RolloutResult => {
      ctx.logEvent('rollout_complete', { finish_reason: finishReason })
      return ctx.complete(messages, { finishReason })
    }
    let tokens = 0
    for (let turn = 0; turn < maxTurns; turn += 1) {
      ctx.logEvent('pre_llm', { turn, num_messages: messages.length })
      const { message, toolCalls, finishReason, usage } = await ctx.chat(messages, completionParams)
      ctx.logEvent('llm_response', { turn, message, usage, finish_reason: finishReason })
      messages.push(message)
      tokens += usage.completion_tokens ?? 0
      if (tokens >= maxTokensTotal) return end('max_tokens')
      if (toolCalls.length === 0) return end(finishReason ?? 'stop')

      const results = await executeToolCalls(
        toolCalls,
        async (call) => tools.execute(call),
        options,
      )
      ctx.logEvent('tool_results', { turn, results })
      messages.push(...results)
    }
    return end('max_turns')
  }
}
