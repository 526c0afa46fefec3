export { defineReward, type EvalFunction, type EvalInput, type RewardFunction } from '@osmosis/core'

export { type ChatResult, type ChatResultUsage } from './chat/chat-result.ts'
export {
  mcpAgentLoop,
  type McpAgentLoopOptions,
  type McpClient,
  type McpContent,
  type McpTool,
  type McpToolResult,
} from './mcp-agent-loop.ts'
export { getLastAssistantContent } from './chat/message-fields.ts'
export {
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  RolloutAgentLoop,
  type RolloutContext,
  type CompletionParams,
  type RolloutRequest,
} from './rollout-agent-loop.ts'
export {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTimeoutError,
  OsmosisTransportError,
  OsmosisValidationError,
  type RolloutErrorOptions,
} from './rollout-errors.ts'
export { type RolloutResult } from './rollout-result.ts'
export { type AgentLoopApp, createApp, type CreateAppOptions } from './server/create-app.ts'
export { type Registration, checkRegistration, type RegistrationOptions } from './registration.ts'
export {
  type RolloutClientSettings,
  type RolloutServerSettings,
  type RolloutSettingsInput,
} from './rollout-settings.ts'
export { executeToolCalls, type ExecuteToolCallsOptions } from './tools/execute-tool-calls.ts'
export type { FunctionTool } from '@osmosis/protocol/wire'
export {
  functionTool,
  type JsonSchema,
  type StandardJsonSchema,
  type ToolInput,
} from './tools/function-tool.ts'
export {
  serializeToolResult,
  type SerializeToolResultOptions,
  createToolErrorResult,
  createToolResult,
  type ToolResultMessage,
} from './tools/tool-results.ts'
export {
  getToolCallInfo,
  type ToolCallInfo,
  ToolArgumentError,
  ToolExecutionError,
} from './tools/tool-call-info.ts'
export {
  AgentLoopValidationError,
  formatIssue,
  type ValidationIssue,
  validateAgentLoop,
  type ValidationReport,
} from './validate-agent-loop.ts'
