import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { generateText, isStepCount, jsonSchema, streamText, tool, type ToolSet } from 'ai'

import { describeToolSpans, type TracedTestTool } from '../../../test/kit/tool-span-cases.ts'

const sdkTools = (tools: readonly TracedTestTool[]): ToolSet =>
  Object.fromEntries(
    tools.map(({ name, execute }) => [
      name,
      tool({ inputSchema: jsonSchema<object>({ type: 'object' }), execute: async () => execute() }),
    ]),
  )

const callOf = (name: string, tools: readonly TracedTestTool[]) => ({
  model: rolloutModel(name),
  prompt: 'go',
  tools: sdkTools(tools),
  stopWhen: isStepCount(5),
})

describeToolSpans('generateText', {
  run: async (name, tools) => generateText(callOf(name, tools)),
  thrown: 'TypeError',
})

describeToolSpans('streamText', {
  run: async (name, tools) => streamText({ ...callOf(name, tools), onError: () => {} }).text,
  thrown: 'TypeError',
})

describeToolSpans('OsmosisToolLoopAgent', {
  run: async (name, tools) =>
    new OsmosisToolLoopAgent({
      id: name,
      model: rolloutModel(),
      tools: sdkTools(tools),
    }).generate({ prompt: 'go' }),
  thrown: 'TypeError',
})
