import { run, setTraceProcessors, setTracingDisabled, type TracingProcessor } from '@openai/agents'
import { RolloutContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

let traces = 0

const counting: TracingProcessor = {
  onTraceStart: async () => {
    traces += 1
  },
  onTraceEnd: async () => {},
  onSpanStart: async () => {},
  onSpanEnd: async () => {},
  shutdown: async () => {},
  forceFlush: async () => {},
}

beforeEach(() => {
  traces = 0
  // As in a program; test runners have the SDK start with tracing off.
  setTracingDisabled(false)
  setTraceProcessors([counting])
})

afterEach(() => {
  setTraceProcessors([])
  setTracingDisabled(true)
  vi.unstubAllEnvs()
})

/** Runs an agent in a rollout of a process that has had none yet. */
async function runFirstRollout(between: () => void = () => {}): Promise<void> {
  vi.resetModules()
  const { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } =
    await import('@osmosis/openai-agents')
  await using server = await startPolicyServer(['hi'])
  const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: server.url })
  await rollout.run(async () => {
    const agent = new OsmosisAgent({ name: 'a', model: new OsmosisRolloutModel() })
    between()
    await run(agent, 'hello', { session: new OsmosisMemorySession() })
  })
}

test('no trace of a rollout is exported', async () => {
  await runFirstRollout()
  expect(traces).toBe(0)
})

test('tracing that the user turns on afterwards stays on', async () => {
  await runFirstRollout(() => setTracingDisabled(false))
  expect(traces).toBe(1)
})

test('OSMOSIS_KEEP_OPENAI_TRACING=1 keeps it on', async () => {
  vi.stubEnv('OSMOSIS_KEEP_OPENAI_TRACING', '1')
  await runFirstRollout()
  expect(traces).toBe(1)
})
