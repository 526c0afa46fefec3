import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'
import { requireRolloutContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { rolloutOn, sampleIds } from '../kit/index.ts'

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
