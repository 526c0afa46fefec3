import { type AgentInputItem, run, Runner } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { type PolicyScript, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { addTool, kindsOf, policyAgent } from './rollout.ts'

const user = (content: string): AgentInputItem => ({ role: 'user', content })
const assistant = (text: string): AgentInputItem => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
})

/** Runs a program with one session; what the policy read in the last call, a line each, and the sample's items. */
async function readBy(
  answers: PolicyScript,
  program: (session: OsmosisMemorySession) => Promise<void>,
): Promise<{ read: string[]; stored: string[] }> {
  await using server = await startPolicyServer(answers)
  const rollout = rolloutOn(server)
  await rollout.run(async () => program(new OsmosisMemorySession({ name: 'main' })))
  const read = messagesOf(server.requests.at(-1)).map(
    ({ role, content, tool_calls: calls }) => `${role} ${calls ? 'calls' : (content as string)}`,
  )
  return { read, stored: kindsOf(await sampleOf(rollout, 'main')) }
}

describe('the policy reads once what both the session and a list hold', () => {
  const whole = ['user one', 'assistant 1', 'user two', 'assistant 2', 'user three']
  const items = ['user', 'assistant', 'user', 'assistant', 'user', 'assistant']

  test.each([false, true])('a list made of result.history, streamed: %s', async (stream) => {
    const got = await readBy(['1', '2', '3'], async (session) => {
      let history: AgentInputItem[] = []
      for (const question of ['one', 'two', 'three']) {
        const input = [...history, user(question)]
        if (stream) {
          const result = await run(policyAgent(), input, { session, stream })
          await result.completed
          history = result.history
        } else history = (await run(policyAgent(), input, { session })).history
      }
    })
    expect(got).toEqual({ read: whole, stored: items })
  })

  test('a list of texts alone, as programs with a database have it', async () => {
    const got = await readBy(['1', '2', '3'], async (session) => {
      const history: AgentInputItem[] = []
      for (const question of ['one', 'two', 'three']) {
        history.push(user(question))
        const { finalOutput } = await run(policyAgent(), history, { session })
        history.push(assistant(String(finalOutput)))
      }
    })
    expect(got).toEqual({ read: whole, stored: items })
  })

  test('a list in the form of chat completions', async () => {
    const prompt: { role: string; content: string }[] = []
    const got = await readBy(['1', '2', '3'], async (session) => {
      for (const question of ['one', 'two', 'three']) {
        prompt.push({ role: 'user', content: question })
        const input = prompt as unknown as AgentInputItem[]
        const { finalOutput } = await run(policyAgent(), input, { session })
        prompt.push({ role: 'assistant', content: String(finalOutput) })
      }
    })
    expect(got).toEqual({ read: whole, stored: items })
  })

  test('the last messages only, of which the session keeps all', async () => {
    const got = await readBy(['1', '2', '3'], async (session) => {
      let history: AgentInputItem[] = []
      for (const question of ['one', 'two', 'three']) {
        const { history: now } = await run(policyAgent(), [...history, user(question)], { session })
        history = now.slice(-2)
      }
    })
    expect(got).toEqual({ read: ['user two', 'assistant 2', 'user three'], stored: items })
  })

  test('a list whose program leaves tool calls out', async () => {
    const call = { toolCalls: [{ name: 'add', arguments: '{"a":1,"b":2}' }] }
    const got = await readBy([call, '3', 'ok'], async (session) => {
      const agent = policyAgent({ tools: [addTool()] })
      await run(agent, [user('add')], { session })
      await run(agent, [user('add'), assistant('3'), user('thanks')], { session })
    })
    expect(got.read).toEqual(['user add', 'assistant 3', 'user thanks'])
    expect(got.stored).toEqual([
      'user',
      'function_call',
      'function_call_result',
      'assistant',
      'user',
      'assistant',
    ])
  })

  test('a list with tool calls', async () => {
    const call = { toolCalls: [{ name: 'add', arguments: '{"a":1,"b":2}' }] }
    const got = await readBy([call, '3', 'ok'], async (session) => {
      const agent = policyAgent({ tools: [addTool()] })
      const { history } = await run(agent, [user('add')], { session })
      await run(agent, [...history, user('thanks')], { session })
    })
    expect(got.read).toEqual([
      'user add',
      'assistant calls',
      'tool sum: 3',
      'assistant 3',
      'user thanks',
    ])
    expect(got.stored).toHaveLength(6)
  })
})

describe('a list stands behind what the session holds', () => {
  test('when each one begins with the same examples', async () => {
    const got = await readBy(['1', '2'], async (session) => {
      for (const question of ['one', 'two']) {
        await run(policyAgent(), [user('zero'), assistant('0'), user(question)], { session })
      }
    })
    const examples = ['user zero', 'assistant 0']
    expect(got.read).toEqual([...examples, 'user one', 'assistant 1', ...examples, 'user two'])
  })

  test('when a question is asked again', async () => {
    const got = await readBy(['1', '2'], async (session) => {
      await run(policyAgent(), [user('go on')], { session })
      await run(policyAgent(), [user('go on')], { session })
    })
    expect(got.read).toEqual(['user go on', 'assistant 1', 'user go on'])
  })

  test('when the program says so by a function of its own', async () => {
    const own = (stored: AgentInputItem[], given: AgentInputItem[]) => [...stored, ...given]
    const doubled = ['user one', 'assistant 1', 'user one', 'assistant 1', 'user two']
    const second = [user('one'), assistant('1'), user('two')]
    const options = await readBy(['1', '2'], async (session) => {
      await run(policyAgent(), [user('one')], { session })
      await run(policyAgent(), second, { session, sessionInputCallback: own })
    })
    expect(options.read).toEqual(doubled)
    const runner = await readBy(['1', '2'], async (session) => {
      const configured = new Runner({ sessionInputCallback: own })
      await configured.run(policyAgent(), [user('one')], { session })
      await configured.run(policyAgent(), second, { session })
    })
    expect(runner.read).toEqual(doubled)
  })
})
