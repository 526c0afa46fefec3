export {
  defineReward,
  type EvalFunction,
  type EvalInput,
  isRewardFunction,
  type RewardFunction,
} from '@osmosis/core'

export { type ChatResult, type ChatResultUsage } from './chat/chat-result.ts'
export { mcpAgentLoop, type McpAgentLoopOptions } from './mcp/mcp-agent-loop.ts'
export {
  type McpClient,
  type McpContent,
  type McpTool,
  type McpToolResult,
} from './mcp/mcp-client.ts'
export {
  countMessagesByRole,
  getLastAssistantContent,
  getMessageContent,
  getMessageRole,
  isAssistantMessage,
  isToolMessage,
  isUserMessage,
  parseToolCalls,
} from './message-fields.ts'
export { normalizeStop } from './chat/chat-parameters.ts'
export {
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  RolloutAgentLoop,
} from './rollout-agent-loop.ts'
export { type RolloutContext } from './rollout-context.ts'
export {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTimeoutError,
  OsmosisTransportError,
  OsmosisValidationError,
  type RolloutErrorOptions,
} from './rollout-errors.ts'
export { type CompletionParams, type RolloutRequest } from './rollout-request.ts'
export { type RolloutResult } from './rollout-result.ts'
export { type AgentLoopApp, createApp, type CreateAppOptions } from './server/create-app.ts'
export { type Registration } from './platform/platform-answer.ts'
export { checkRegistration, type RegistrationOptions } from './platform/registration.ts'
export {
  resolveSettings,
  type RolloutClientSettings,
  type RolloutServerSettings,
  type RolloutSettings,
  type RolloutSettingsInput,
} from './settings/rollout-settings.ts'
export { executeToolCalls, type ExecuteToolCallsOptions } from './tools/execute-tool-calls.ts'
export type { FunctionTool } from '@osmosis/runtime/wire'
export {
  functionTool,
  type JsonSchema,
  type StandardJsonSchema,
  type ToolInput,
} from './tools/function-tool.ts'
export { serializeToolResult, type SerializeToolResultOptions } from './tools/tool-results.ts'
export { getToolCallInfo, parseToolArguments, type ToolCallInfo } from './tools/tool-call-info.ts'
export { type FailedToolCall, ToolArgumentError, ToolExecutionError } from './tools/tool-errors.ts'
export {
  createToolErrorResult,
  createToolResult,
  type ToolResultMessage,
} from './tools/tool-results.ts'
export {
  AgentLoopValidationError,
  validateAgentLoop,
  type ValidationReport,
} from './validate-agent-loop.ts'
export { formatIssue, type ValidationIssue } from './tools/check-tools.ts'
