import type { StreamOptions, ToolChoice } from '@strands-agents/sdk'

/** The tools of a model call as the fields of a chat completions request. */
export function toWireTools({
  toolSpecs = [],
  toolChoice,
}: StreamOptions): Record<string, unknown> {
  if (toolSpecs.length === 0) return {}
  const tools = toolSpecs.map(({ name, description, inputSchema }) => ({
    type: 'function',
    function: {
      name,
      ...(description ? { description } : {}),
      parameters: inputSchema ?? { type: 'object', properties: {} },
    },
  }))
  return toolChoice ? { tools, tool_choice: toWireToolChoice(toolChoice) } : { tools }
}

function toWireToolChoice(choice: ToolChoice): unknown {
  if ('auto' in choice) return 'auto'
  if ('any' in choice) return 'required'
  return { type: 'function', function: { name: choice.tool.name } }
}
