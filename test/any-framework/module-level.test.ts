import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'
import { requireRolloutContext } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import OpenAI from 'openai'
import { expect, it } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn, sampleOf } from '../kit/index.ts'

// What programs make once, at the top of a module, and rollouts share.
const client = new OpenAI({ apiKey: 'of users', baseURL: 'https://api.example.com/v1' })

const graph = new StateGraph(MessagesAnnotation, z.object({ model: z.instanceof(ChatOpenAI) }))
  .addNode('agent', async ({ messages }, { context }) => {
    if (context === undefined) throw new Error('the graph is given its model in its context')
    return { messages: [await context.model.invoke(messages)] }
  })
  .addEdge(START, 'agent')
  .addEdge('agent', END)
  .compile()

const programs = {
  async 'a client of openai'(prompt: string): Promise<void> {
    const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample('main')
    await client.withOptions({ baseURL: baseUrl, fetch }).chat.completions.create({
      model: 'gpt-4.1',
      messages: [{ role: 'user', content: prompt }],
    })
  },
  async 'a graph of LangGraph.js'(prompt: string): Promise<void> {
    const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample('main')
    const model = new ChatOpenAI({
      model: 'gpt-4.1',
      apiKey: 'unused',
      maxRetries: 0,
      configuration: { baseURL: baseUrl, fetch },
    })
    await graph.invoke({ messages: [{ role: 'user', content: prompt }] }, { context: { model } })
  },
}

it.each(Object.entries(programs))(
  '%s at the top of a module serves many rollouts',
  async (_, run) => {
    await using server = await startPolicyServer(
      (request) => `said to ${String(request.headers['x-rollout-id'])}`,
    )
    const rollouts = Array.from({ length: 30 }, (_unused, n) => rolloutOn(server, `rollout-${n}`))
    await Promise.all(
      rollouts.map(async (rollout) => rollout.run(async () => run(rollout.rolloutId))),
    )
    expect(server.requests).toHaveLength(30)
    for (const request of server.requests) {
      expect(request.headers).toMatchObject({ 'x-sample-id': 'main', authorization: 'Bearer key' })
      expect(messagesOf(request)).toEqual([
        { role: 'user', content: request.headers['x-rollout-id'] },
      ])
    }
    for (const rollout of rollouts) {
      const { trajectoryMessages } = await sampleOf(rollout)
      expect(trajectoryMessages).toEqual([
        { role: 'user', content: rollout.rolloutId },
        { role: 'assistant', content: `said to ${rollout.rolloutId}` },
      ])
    }
  },
)
