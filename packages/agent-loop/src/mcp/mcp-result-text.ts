import { serializeToolResult } from '../tools/serialize-tool-result.ts'
import type { McpContent, McpToolResult } from './mcp-client.ts'

/**
 * What a tool gave, as text for the policy: its data where it gave some, otherwise its content.
 * Data with the only key `result` stands for that value: servers wrap what is no object that way.
 */
export function resultText({ structuredContent, content }: McpToolResult): string {
  if (!structuredContent) return contentText(content)
  const [key, ...others] = Object.keys(structuredContent)
  const wrapped = key === 'result' && others.length === 0
  return serializeToolResult(wrapped ? structuredContent['result'] : structuredContent)
}

/** The parts of a result, one below the other. */
export function contentText(content: readonly McpContent[] = []): string {
  return content.map(partText).join('\n')
}

/** Policies read text: a part that is none is named, so that they know there was something. */
function partText({ type, text, resource, uri, mimeType }: McpContent): string {
  return text ?? resource?.text ?? `[${type}: ${resource?.uri ?? uri ?? mimeType ?? 'no text'}]`
}
