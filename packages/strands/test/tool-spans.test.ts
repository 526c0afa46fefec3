import { FunctionTool } from '@strands-agents/sdk'

import { describeToolSpans, type TracedTestTool } from '../../../test/kit/tool-span-cases.ts'
import { policyAgent } from './rollout.ts'

const sdkTool = ({ name, execute }: TracedTestTool): FunctionTool =>
  new FunctionTool({
    name,
    description: name,
    inputSchema: { type: 'object', properties: {} },
    callback: async () => execute(),
  })

describeToolSpans('invoke', {
  run: async (name, tools) => policyAgent({ name, tools: tools.map(sdkTool) }).invoke('go'),
  thrown: 'TypeError',
})

describeToolSpans('stream', {
  run: async (name, tools) => {
    const agent = policyAgent({ name, tools: tools.map(sdkTool) })
    for await (const event of agent.stream('go')) void event
  },
  thrown: 'TypeError',
})
