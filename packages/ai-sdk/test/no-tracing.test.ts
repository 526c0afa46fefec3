// @module-tag slow
import { expect, test } from 'vitest'

import { telemetryFilesOf } from '../../../test/kit/loaded-packages.ts'

test('OpenTelemetry is not loaded for tools when no provider is registered', async () => {
  const files = await telemetryFilesOf(
    import.meta.dirname,
    `import { generateText, isStepCount, jsonSchema, tool as sdkTool } from 'ai'
     import { rolloutModel } from '@osmosis/ai-sdk'`,
    `const look = sdkTool({ inputSchema: jsonSchema({ type: 'object' }), execute: tool })
     await generateText({ model: rolloutModel(), prompt: 'go', tools: { look }, stopWhen: isStepCount(3) })`,
  )
  expect(files).toBe(0)
})
