import { tool } from '@langchain/core/tools'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { requireRolloutContext } from '@osmosis/core'
import { fault, startPolicyServer, type ReceivedRequest } from '@osmosis/testing'
import { execute, messagesOf, rolloutOn, sampleIds } from '../kit/index.ts'
import { expect, it } from 'vitest'
import { z } from 'zod'

function modelOf(name: string): ChatOpenAI {
  const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample(name)
  return new ChatOpenAI({
    model: 'policy',
    apiKey: 'unused',
    maxRetries: 0,
    configuration: { baseURL: baseUrl, fetch },
  })
}

function nodeOf(name: string) {
  const model = modelOf(name)
  return async ({ messages }: typeof MessagesAnnotation.State) => ({
    messages: [await model.invoke(messages)],
  })
}

it('subgraphs of LangGraph.js have samples of their own', async () => {
  await using server = await startPolicyServer(
    ({ headers }) => `I am ${String(headers['x-sample-id'])}`,
  )
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const critic = new StateGraph(MessagesAnnotation)
      .addNode('critic', nodeOf('critic'))
      .addEdge(START, 'critic')
      .addEdge('critic', END)
      .compile()
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('writer', nodeOf('writer'))
      .addNode('review', critic)
      .addEdge(START, 'writer')
      .addEdge('writer', 'review')
      .addEdge('review', END)
      .compile()
    await graph.invoke({ messages: [{ role: 'user', content: 'go' }] })
  })
  expect(sampleIds(server)).toEqual(['writer', 'critic'])
  const samples = await rollout.getSamples()
  const go = { role: 'user', content: 'go' }
  const written = { role: 'assistant', content: 'I am writer' }
  expect(samples.get('writer')?.messages).toEqual([go, written])
  expect(samples.get('critic')?.messages).toEqual([
    go,
    written,
    { role: 'assistant', content: 'I am critic' },
  ])
})

it('an agent of LangGraph.js that is called twice as a tool keeps both conversations', async () => {
  await using server = await startPolicyServer(askTwice)
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    supervised().invoke({ messages: [{ role: 'user', content: 'go' }] }),
  )
  const helper = (await rollout.getSamples()).get('helper')
  expect(helper?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, false])
  expect(helper?.messages).toMatchObject([{ content: 'question 2' }, { content: 'an answer' }])
  expect(helper?.extraFields).toMatchObject({
    other_conversations: [[{ content: 'question 1' }, { content: 'an answer' }]],
  })
})

it('an agent that fails in a tool fails the rollout, also where LangGraph.js continues with a text', async () => {
  await using server = await startPolicyServer((request) =>
    request.headers['x-sample-id'] === 'helper' ? fault.status(400) : askTwice(request),
  )
  let said: string | undefined
  const { workflow } = await execute(server, async () => {
    said = (await supervised().invoke({ messages: 'go' })).messages.at(-1)?.text
  })
  expect(said).toBe('done')
  expect(workflow).toMatchObject({
    failure: { category: 'http_error', message: expect.stringContaining('answered 400') },
  })
})

function supervised() {
  const helper = modelOf('helper')
  const ask = tool(async ({ question }) => (await helper.invoke(question)).text, {
    name: 'ask',
    description: 'Asks a helper.',
    schema: z.object({ question: z.string() }),
  })
  const model = modelOf('main').bindTools([ask])
  return new StateGraph(MessagesAnnotation)
    .addNode('agent', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode('tools', new ToolNode([ask]))
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', toolsCondition, ['tools', END])
    .addEdge('tools', 'agent')
    .compile()
}

/** The agent asks its helper twice, one question after the other. */
function askTwice(request: ReceivedRequest) {
  if (request.headers['x-sample-id'] === 'helper') return 'an answer'
  const asked = messagesOf(request).filter(({ role }) => role === 'tool').length
  if (asked === 2) return 'done'
  return { toolCalls: [{ name: 'ask', arguments: { question: `question ${asked + 1}` } }] }
}
