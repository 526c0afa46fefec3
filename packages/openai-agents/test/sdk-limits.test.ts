import { MaxTurnsExceededError, run, tool, webSearchTool } from '@openai/agents'
import { getRolloutContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test, vi } from 'vitest'
import { z } from 'zod'

import { callAdd, rolloutOn } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

// What the README says of the SDK; a test that fails here means that a sentence can go.

test('hosted tools are refused before the policy is called', async () => {
  await using server = await startPolicyServer([])
  const searching = rolloutOn(server).run(async () =>
    run(policyAgent({ tools: [webSearchTool()] }), 'go', { session: new OsmosisMemorySession() }),
  )
  await expect(searching).rejects.toThrow('Hosted tools are not supported')
  expect(server.requests).toHaveLength(0)
})

test('an empty answer where structured output is due is requested again', async () => {
  await using server = await startPolicyServer(() => '')
  const structured = rolloutOn(server).run(async () => {
    const outputType = z.object({ sum: z.number() })
    const agent = new OsmosisAgent({ name: 'x', model: new OsmosisRolloutModel(), outputType })
    await run(agent, 'go', { session: new OsmosisMemorySession(), maxTurns: 3 })
  })
  await expect(structured).rejects.toBeInstanceOf(MaxTurnsExceededError)
  expect(server.requests).toHaveLength(3)
})

test('only an errorFunction brings what a tool threw into the log of its rollout', async () => {
  await using server = await startPolicyServer([callAdd, 'done', callAdd, 'done'])
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const closedShop = (errorFunction?: (context: unknown, error: unknown) => string) =>
    tool({
      name: 'add',
      description: 'Breaks.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      ...(errorFunction && { errorFunction }),
      execute: async () => {
        throw new TypeError('the shop is closed')
      },
    })
  const logging = closedShop((_, error) => {
    getRolloutContext()?.logToolError('add', error)
    return String(error)
  })
  const agentWith = async (broken: ReturnType<typeof closedShop>, name: string) =>
    run(policyAgent({ name, tools: [broken] }), 'go', {
      session: new OsmosisMemorySession({ name }),
      maxTurns: 2,
    })
  await rolloutOn(server).run(async () => {
    await agentWith(closedShop(), 'silent')
    expect(written).not.toHaveBeenCalled()
    await agentWith(logging, 'logging')
  })
  const [line] = written.mock.calls.map(([text]) => String(text))
  written.mockRestore()
  expect(JSON.parse(line ?? '')).toMatchObject({
    tool: 'add',
    thrown: expect.stringMatching(/^TypeError: the shop is closed\n +at /),
  })
})
