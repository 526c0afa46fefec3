import { RolloutContext } from '@osmosis/core'
import { isToolError } from '@osmosis/eval/analysis'
import { type ContractTool, startPolicyServer } from '@osmosis/testing'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

import { agentsUnderTest } from './agents-under-test.ts'

// What tools throw goes there.
beforeEach(() => {
  vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
})
afterEach(() => {
  vi.restoreAllMocks()
})

const parameters = {
  type: 'object',
  properties: { a: { type: 'number' } },
  required: ['a'],
  additionalProperties: false,
}
const tools: ContractTool[] = [
  { name: 'add', description: 'adds', parameters, execute: () => 'added' },
  { name: 'divide', description: 'divides', parameters, execute: fail },
]

function fail(): never {
  throw new TypeError('the shop is closed')
}

/** Without the loops of other tests. */
const adapters = Object.entries(agentsUnderTest).filter(([name]) => !/^(?:fetch|proxy)/.test(name))

/** The results of a call in every adapter, without those of tools that ran all the same. */
async function resultsOf(name: string, json: string): Promise<[agent: string, result: string][]> {
  const results = adapters.map(async ([agent, run]) => {
    await using server = await startPolicyServer([
      { toolCalls: [{ name, arguments: json }] },
      'done',
    ])
    const rollout = new RolloutContext({
      rolloutId: agent.replaceAll(/\W/g, '-'),
      chatCompletionsUrl: server.url,
    })
    await rollout.run(async () => run({ name: 'solver', prompt: 'go', tools }))
    const messages = server.requests.at(-1)?.body['messages'] as { content: string }[]
    return [agent, messages.at(-1)?.content ?? ''] satisfies [string, string]
  })
  return (await Promise.all(results)).filter(([, result]) => result !== 'added')
}

const uncounted = (results: [string, string][]): [string, string][] =>
  results.filter(([, content]) => !isToolError({ content }))

it('a call of a tool that does not exist counts as a tool error in every adapter', async () => {
  const results = await resultsOf('subtract', '{"a":1}')
  expect(results).toHaveLength(adapters.length)
  expect(uncounted(results)).toEqual([])
})

it('a call that a framework refuses because of its arguments counts as a tool error', async () => {
  const results = await resultsOf('add', '{"a":"one"}')
  expect(results.length).toBeGreaterThan(4)
  expect(uncounted(results)).toEqual([])
})

it('a tool that throws counts as a tool error where its framework says more than the message', async () => {
  const results = await resultsOf('divide', '{"a":1}')
  expect(results).toHaveLength(adapters.length)
  expect(uncounted(results)).toEqual([
    ['mastra', 'the shop is closed'],
    ['mastra, streamed', 'the shop is closed'],
    ['pi', 'the shop is closed'],
  ])
})
