import { errorMessage, OsmosisError } from '@osmosis/core'

import { RolloutAgentLoop, type RolloutContext, type RolloutRequest } from './rollout-agent-loop.ts'
import type { RolloutResult } from './rollout-result.ts'
import { executeToolCalls } from './tools/execute-tool-calls.ts'
import { functionTool, type ToolInput } from './tools/function-tool.ts'
import {
  getToolCallInfo,
  hasNoArguments,
  namesOfCall,
  type ToolCallInfo,
  ToolArgumentError,
  ToolExecutionError,
} from './tools/tool-call-info.ts'
import {
  createToolErrorResult,
  createToolResult,
  serializeToolResult,
  type ToolResultMessage,
} from './tools/tool-results.ts'

/** Options of {@link mcpAgentLoop}. */
export interface McpAgentLoopOptions {
  /** Identifies the agent in health answers and logs. Not empty. */
  readonly name: string
  /**
   * Connects to the server: once for the tools of a rollout, and once to run it. Each connection is
   * closed after that, so `connect` must create a new one each time.
   */
  readonly connect: (request: RolloutRequest) => Promise<McpClient>
  /** Maximum concurrent tool calls of one answer; default: all of them. */
  readonly maxConcurrentTools?: number | undefined
}

/**
 * An agent loop with the tools of an MCP server. It calls the policy, executes the tool calls of the answer
 * on the server, and ends when there are no more calls or a limit of the rollout is reached. It
 * sets no reward.
 *
 * @throws RangeError for a `maxConcurrentTools` that is not a whole number of at least 1
 */
export function mcpAgentLoop(options: McpAgentLoopOptions): RolloutAgentLoop {
  const { maxConcurrentTools: max } = options
  if (max !== undefined && !(Number.isInteger(max) && max >= 1)) {
    throw new RangeError(`maxConcurrentTools must be a whole number of at least 1, got ${max}`)
  }
  return new McpAgentLoop(options)
}

/**
 * The two connections of a rollout are independent. A rollout may wait in the queue between them, or
 * never start: an open connection would be one server process for every queued rollout, and those of
 * refused rollouts would never be closed.
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
    return connected(async () => this.#options.connect(request), listTools)
  }

  async run(ctx: RolloutContext): Promise<RolloutResult> {
    return connected(
      async () => this.#options.connect(ctx.request),
      async (client) => this.#converse(ctx, client),
    )
  }

  async #converse(ctx: RolloutContext, client: McpClient): Promise<RolloutResult> {
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

      const last = toolCalls.at(-1)
      const executeCall = async (call: unknown): Promise<ToolResultMessage> => {
        const started = performance.now()
        const isCut = finishReason === 'length' && call === last && hasNoArguments(call)
        const result = isCut ? cutCall(call) : await execute(call, client, ctx)
        ctx.recordToolCall({ latencyMs: performance.now() - started })
        return result
      }
      const results = await executeToolCalls(toolCalls, executeCall, options)
      ctx.logEvent('tool_results', { turn, results })
      messages.push(...results)
    }
    return end('max_turns')
  }
}

/** A tool as an MCP server lists it. */
export interface McpTool {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema of its arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>
}

/** The result of an MCP tool. */
export interface McpToolResult {
  readonly content?: readonly McpContent[] | undefined
  /** The same as data, from tools that declare an output schema. */
  readonly structuredContent?: Readonly<Record<string, unknown>> | undefined
  readonly isError?: boolean | undefined
  readonly [key: string]: unknown
}

/** A part of a result. Parts that are not text are described by their URI or type. */
export interface McpContent {
  /** `text`, `image`, `audio`, `resource`, `resource_link`. */
  readonly type: string
  readonly text?: string | undefined
  readonly resource?: { readonly uri: string; readonly text?: string | undefined } | undefined
  readonly uri?: string | undefined
  readonly mimeType?: string | undefined
}

/**
 * An open connection to an MCP server, with the methods that an agent loop needs. `Client` of
 * `@modelcontextprotocol/sdk` implements it.
 */
export interface McpClient {
  listTools(params?: { cursor?: string | undefined }): Promise<{
    readonly tools: readonly McpTool[]
    /** Cursor of the next page; missing on the last one. */
    readonly nextCursor?: string | undefined
  }>
  /**
   * If the server answers with a JSON-RPC error, rejects with an `Error` that has its `code`
   * and `data`; the policy reads its message. Every other rejection ends the rollout. `timeout` is in
   * milliseconds.
   */
  callTool(
    params: { name: string; arguments: Record<string, unknown> },
    resultSchema: undefined,
    options: { signal: AbortSignal; timeout: number },
  ): Promise<McpToolResult>
  /** Closes the connection. The loop waits at most 5 seconds for it. */
  close(): Promise<void>
}

/** Longest delay of a timer in Node.js: 24 days. Milliseconds. */
const maxTimerMs = 2 ** 31 - 1

/** How long a result waits until its connection is closed. Milliseconds. */
const maxCloseMs = 5000

/** Opens a connection for `work`, and closes it also when `work` fails. */
async function connected<T>(
  open: () => Promise<McpClient>,
  work: (client: McpClient) => Promise<T>,
): Promise<T> {
  const client = await open()
  try {
    return await work(client)
  } finally {
    await close(client)
  }
}

/** Never rejects: an error while closing does not affect the result. */
async function close(client: McpClient): Promise<void> {
  const { promise: timeout, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, maxCloseMs).unref()
  // An async function, because a client may also throw synchronously.
  const closed = (async () => client.close())().catch(() => undefined)
  await Promise.race([closed, timeout])
  clearTimeout(timer)
}

/**
 * The tools of all pages of a server's list, with unchanged schemas.
 *
 * @throws OsmosisError with code `protocol_error` when the list returns to an earlier page
 */
async function listTools(client: McpClient): Promise<ToolInput[]> {
  const tools: ToolInput[] = []
  const visited = new Set<string | undefined>()
  let cursor: string | undefined
  do {
    if (visited.has(cursor)) {
      throw new OsmosisError(
        'protocol_error',
        `The MCP server's list of tools is endless: it repeats nextCursor '${cursor}'; each page must lead to a new one.`,
      )
    }
    visited.add(cursor)
    const page = await client.listTools({ cursor })
    for (const { name, description, inputSchema } of page.tools) {
      const text = description || `Tool: ${name}`
      tools.push(functionTool({ name, description: text, parameters: inputSchema }))
    }
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return tools
}

/** The result of a call whose arguments the limit of the answer's length may have cut off, and which must not run. */
function cutCall(call: unknown): ToolResultMessage {
  const { toolCallId } = namesOfCall(call)
  return createToolErrorResult(
    toolCallId,
    'The answer reached the limit of its length before the arguments of this call',
  )
}

/**
 * Executes a tool call of the policy, which reads errors of the tool as its result.
 *
 * @throws ToolExecutionError when the server sent no valid answer
 */
async function execute(
  toolCall: unknown,
  client: McpClient,
  { tools, signal }: RolloutContext,
): Promise<ToolResultMessage> {
  let call: ToolCallInfo
  try {
    call = getToolCallInfo(toolCall)
  } catch (error) {
    if (!(error instanceof ToolArgumentError)) throw error
    return createToolErrorResult(error.toolCallId, error.message)
  }
  const { toolCallId, name, args } = call
  if (!tools.some((tool) => tool.function.name === name)) {
    return createToolErrorResult(toolCallId, `Unknown tool: ${name}`)
  }
  try {
    // It may run as long as its rollout, so the client's own time limit is disabled.
    const options = { signal, timeout: maxTimerMs }
    const result = await client.callTool({ name, arguments: args }, undefined, options)
    if (!result.isError) return createToolResult(toolCallId, resultText(result))
    const reason = contentText(result.content) || 'The tool failed and gave no reason'
    return createToolErrorResult(toolCallId, reason)
  } catch (error) {
    const message = errorMessage(error)
    // A call that its own rollout aborted is not an error of the server.
    if (isAnsweredError(error) || signal.aborted) return createToolErrorResult(toolCallId, message)
    // The policy did not cause this, and cannot avoid it next time.
    throw new ToolExecutionError(
      `The MCP server gave no valid answer to a call of ${name}: ${message}`,
      { toolCallId, toolName: name, cause: error },
    )
  }
}

/**
 * The result of a tool as text for the policy: its structured data if it has some, else its content.
 * Data with the single key `result` is unwrapped: servers wrap values that are not objects that way.
 */
function resultText({ structuredContent, content }: McpToolResult): string {
  if (!structuredContent) return contentText(content)
  const [key, ...others] = Object.keys(structuredContent)
  const wrapped = key === 'result' && others.length === 0
  return serializeToolResult(wrapped ? structuredContent['result'] : structuredContent)
}

/** The parts of a result, one per line. */
function contentText(content: readonly McpContent[] = []): string {
  return content.map(partText).join('\n')
}

/** Policies read text: a part of another kind is only named. */
function partText({ type, text, resource, uri, mimeType }: McpContent): string {
  return text ?? resource?.text ?? `[${type}: ${resource?.uri ?? uri ?? mimeType ?? 'no text'}]`
}

/** JSON-RPC codes that clients use for their own errors: connection closed, and timeout. */
const codesOfClients: ReadonlySet<unknown> = new Set([-32_000, -32_001])

/**
 * True for an error that an MCP server sent as its answer, as opposed to a connection error. It has the `code`
 * and `data` of JSON-RPC, although `data` may be undefined. The number alone is not sufficient: HTTP errors
 * have their status there.
 */
function isAnsweredError(error: unknown): boolean {
  if (!(error instanceof Error && 'code' in error && 'data' in error)) return false
  return Number.isInteger(error.code) && !codesOfClients.has(error.code)
}
