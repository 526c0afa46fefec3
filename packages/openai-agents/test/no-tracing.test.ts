import { expect, test } from 'vitest'

import { telemetryFilesOf } from '../../../test/kit/loaded-packages.ts'

test(
  'OpenTelemetry is not loaded for tools when no provider is registered',
  { tags: 'slow' },
  async () => {
    const files = await telemetryFilesOf(
      import.meta.dirname,
      `import { run as runAgent, tool as sdkTool } from '@openai/agents'
     import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'`,
      `const parameters = { type: 'object', properties: {}, required: [], additionalProperties: true }
     const look = sdkTool({ name: 'look', description: '', parameters, strict: false, execute: tool })
     const agent = new OsmosisAgent({ name: 'a', model: new OsmosisRolloutModel(), tools: [look] })
     await runAgent(agent, 'go', { session: new OsmosisMemorySession() })`,
    )
    expect(files).toBe(0)
  },
)
