import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

it('OpenTelemetry is not loaded by a process without a registered provider', async () => {
  const program = `
    import { LocalBackend } from '@osmosis/server/execution'
    import { AgentWorkflow } from '@osmosis/core'
    class Empty extends AgentWorkflow { async run() { return { messages: [] } } }
    const events = new LocalBackend({ workflow: Empty }).execute({ rolloutId: 'r1', initialMessages: [],
      label: null, metadata: null, chatCompletionsUrl: 'http://127.0.0.1:1', apiKey: undefined,
      agentTimeoutSeconds: null, graderTimeoutSeconds: null, grade: false })
    for await (const _ of events);
    const { createRequire } = await import('node:module')
    const loaded = Object.keys(createRequire(import.meta.url).cache)
    console.log(loaded.filter((file) => file.includes('opentelemetry')).length)`
  const args = ['--input-type=module-typescript', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname })
  expect(stdout).toBe('0\n')
})
