import { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import type { RolloutContext } from '../rollout-context.ts'
import type { RolloutRequest } from '../rollout-request.ts'
import type { RolloutResult } from '../rollout-result.ts'
import { executeToolCalls } from '../tools/execute-tool-calls.ts'
import type { ToolInput } from '../tools/function-tool.ts'
import type { McpClient } from './mcp-client.ts'
import { McpConnection } from './mcp-connection.ts'
import { McpToolCalls } from './mcp-tool-calls.ts'

/** Options of {@link mcpAgentLoop}. */
export interface McpAgentLoopOptions {
  /** Says which agent this is, in health answers and logs. Not empty. */
  readonly name: string
  /**
   * Connects to the server: once to ask for the tools of a rollout, and once more to run it. Each
   * connection is closed when that is done, so each must be one of its own.
   */
  readonly connect: (request: RolloutRequest) => Promise<McpClient>
  /** Most tool calls of one answer at the same time; default: all of them. */
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
