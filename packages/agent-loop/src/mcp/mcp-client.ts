/** A tool as an MCP server lists it. */
export interface McpTool {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema of its arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>
}

/** What an MCP tool gave. */
export interface McpToolResult {
  readonly content?: readonly McpContent[] | undefined
  /** The same as data, from tools that declare what they give. */
  readonly structuredContent?: Readonly<Record<string, unknown>> | undefined
  readonly isError?: boolean | undefined
  readonly [key: string]: unknown
}

/** A part of a result: text, or something else that is named here by where and what it is. */
export interface McpContent {
  /** `text`, `image`, `audio`, `resource`, `resource_link`. */
  readonly type: string
  readonly text?: string | undefined
  readonly resource?: { readonly uri: string; readonly text?: string | undefined } | undefined
  readonly uri?: string | undefined
  readonly mimeType?: string | undefined
}

/**
 * An open connection to an MCP server, as far as an agent loop needs it. `Client` of
 * `@modelcontextprotocol/sdk` is one.
 */
export interface McpClient {
  listTools(params?: { cursor?: string | undefined }): Promise<{
    readonly tools: readonly McpTool[]
    /** Where the rest of the list begins; missing at its end. */
    readonly nextCursor?: string | undefined
  }>
  /**
   * Where the server answers with an error of JSON-RPC, rejects with an `Error` that has its `code`
   * and `data`; the policy reads its message. Every other rejection ends the rollout. `timeout` is
   * milliseconds.
   */
  callTool(
    params: { name: string; arguments: Record<string, unknown> },
    resultSchema: undefined,
    options: { signal: AbortSignal; timeout: number },
  ): Promise<McpToolResult>
  /** Ends the connection. It is waited for about 5 seconds. */
  close(): Promise<void>
}
