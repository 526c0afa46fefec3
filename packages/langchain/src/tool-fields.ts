import { BaseCallbackHandler } from '@langchain/core/callbacks/base'
import type { BindToolsInput, ToolChoice } from '@langchain/core/language_models/chat_models'
import type { StructuredTool } from '@langchain/core/tools'
import {
  convertToOpenAITool,
  isLangChainTool,
  isStructuredTool,
} from '@langchain/core/utils/function_calling'
import { getRolloutContext, OsmosisError } from '@osmosis/core'

/** A tool as a chat completions request has it. */
export interface WireTool {
  readonly type: 'function'
  readonly function: Readonly<Record<string, unknown>>
}

/**
 * A tool in any form of LangChain, or in that of chat completions.
 *
 * @throws OsmosisError with code `invalid_request` for a tool that a provider executes
 */
function toWireTool(tool: BindToolsInput): WireTool {
  // Those of toolkits that a provider knows by their type alone are not among them.
  if (isLangChainTool(tool)) return convertToOpenAITool(tool) as unknown as WireTool
  if ('function' in tool && tool['type'] === 'function') return tool as WireTool
  const { type, name } = tool as { type?: unknown; name?: unknown }
  throw new OsmosisError(
    'invalid_request',
    `OsmosisChatModel cannot use the tool ${JSON.stringify(name ?? type)}: a provider would execute it. Use tools that run in the program, such as those of tool().`,
  )
}

const wireForms = new WeakMap<readonly BindToolsInput[], readonly WireTool[]>()

/** Tools that do not change any more, so that they are converted once for all calls. */
export function boundTools(tools: readonly BindToolsInput[]): BindToolsInput[] {
  return Object.freeze([...tools]) as BindToolsInput[]
}

/** @throws OsmosisError with code `invalid_request` for a tool that a provider executes */
export function toWireTools(tools: readonly BindToolsInput[]): readonly WireTool[] {
  const known = wireForms.get(tools)
  if (known !== undefined) return known
  const converted = tools.map(toWireTool)
  if (Object.isFrozen(tools)) wireForms.set(tools, converted)
  return converted
}

const logged = new WeakSet<object>()

/** Makes a tool log what it throws in rollouts: LangChain tells that to callbacks, and only the message to the model. */
export function logErrorsOf(tool: BindToolsInput): void {
  if (!isStructuredTool(tool) || logged.has(tool)) return
  const watched: Pick<StructuredTool, 'callbacks' | 'name'> = tool
  const { name, callbacks = [] } = watched
  if (!Array.isArray(callbacks)) return
  logged.add(tool)
  const handler = BaseCallbackHandler.fromMethods({
    handleToolError(error: unknown) {
      // LangGraph interrupts runs by throwing.
      if (!('is_bubble_up' in Object(error))) getRolloutContext()?.logToolError(name, error)
    },
  })
  // Otherwise it may be called in the async context of another rollout.
  handler.awaitHandlers = true
  watched.callbacks = [...callbacks, handler]
}

/** The parts of a request that its tools become. */
export function toolFields({
  tools = [],
  tool_choice,
  strict,
}: {
  readonly tools?: readonly BindToolsInput[] | undefined
  readonly tool_choice?: ToolChoice | undefined
  readonly strict?: boolean | undefined
}): Record<string, unknown> {
  if (tools.length === 0) return {}
  const wireTools = toWireTools(tools).map((tool) =>
    strict === undefined ? tool : { ...tool, function: { ...tool.function, strict } },
  )
  return { tools: wireTools, tool_choice: toWireToolChoice(tool_choice) }
}

function toWireToolChoice(choice: ToolChoice | undefined): unknown {
  if (typeof choice !== 'string') return choice
  if (choice === 'any' || choice === 'required') return 'required'
  if (choice === 'auto' || choice === 'none') return choice
  return { type: 'function', function: { name: choice } }
}
