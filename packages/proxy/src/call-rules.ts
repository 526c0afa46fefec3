import type { PolicyProxyCall, PolicyProxyUse } from './policy-proxy.ts'
import { useHeaderNames } from '@osmosis/core/policy'

type CallHeaders = PolicyProxyCall['headers']

const subAgent: PolicyProxyUse = { purpose: 'subagent' }

/**
 * What a call is for, by the headers and the shape of its request, never by the text of prompts. Calls of an
 * agent, and those whose client says itself what they are for, have no use here.
 */
export function defaultUse(call: PolicyProxyCall): PolicyProxyUse {
  const { headers } = call
  if (useHeaderNames.some((name) => headers[name] !== undefined)) return {}
  if (headers['x-claude-code-agent-id'] !== undefined) return subAgent
  if (headers['x-claude-code-session-id'] !== undefined) {
    return isTitle(call) ? { purpose: 'title', trainable: false } : {}
  }
  const kind = codexRequestKind(headers)
  if (kind !== undefined && kind !== 'turn') return { purpose: kind, trainable: false }
  const isOfSubAgent =
    headers['x-openai-subagent'] !== undefined || headers['x-codex-parent-thread-id'] !== undefined
  return isOfSubAgent ? subAgent : {}
}

/** Claude Code asks for a title in a schema, and gives no tools. */
function isTitle({ body }: PolicyProxyCall): boolean {
  const { tools, output_config: output } = body
  const hasTools = Array.isArray(tools) && tools.length > 0
  return !hasTools && typeof output === 'object' && output !== null && 'format' in output
}

/** `turn`, `compaction` and others; undefined for other clients. */
function codexRequestKind(headers: CallHeaders): string | undefined {
  const metadata = headers['x-codex-turn-metadata']
  if (typeof metadata !== 'string') return undefined
  try {
    const { request_kind: kind } = JSON.parse(metadata) as { request_kind?: unknown }
    if (typeof kind !== 'string') return undefined
    return kind.replaceAll(/[^\w.-]/g, '_').slice(0, 64) || undefined
  } catch {
    return undefined
  }
}
