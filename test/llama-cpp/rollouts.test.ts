import { type GraderContext, Grader, requireRolloutContext } from '@osmosis/core'
import { evaluateRubric } from '@osmosis/models'
import type { ContractRun } from '@osmosis/testing'
import { expect } from 'vitest'

import { agentsUnderTest, type RunAgent } from '../any-server/agents-under-test.ts'
import { execute, rolloutOn } from '../kit/index.ts'
import {
  modelServerKey,
  modelServerModel,
  ownModelServer,
  RecordingProxy,
  withModelServer,
} from '../kit/model-server/index.ts'
import { saidByServer } from './said-by-server.ts'
import { sharedModelServer } from './shared-server.ts'

const { it } = withModelServer()

class RewardEverything extends Grader {
  override async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

const runAgent = agentsUnderTest['ai-sdk'] as RunAgent
const graded = { label: 'label', grader: RewardEverything }
const multiply: ContractRun = {
  name: 'main',
  prompt: 'Multiply 6 by 8.',
  tools: [
    {
      name: 'multiply',
      description: 'Multiplies two numbers.',
      parameters: { type: 'object', properties: {}, additionalProperties: true },
      execute: () => '48',
    },
  ],
}
/** More tokens than the context of the server has. */
const tooLong = 'word '.repeat(3000)

it('a real server holds an answer to the schema of the request', async () => {
  const schema = {
    type: 'object',
    properties: { product: { type: 'integer' } },
    required: ['product'],
    additionalProperties: false,
  }
  const { choices } = await rolloutOn(await sharedModelServer())
    .policy('main')
    .complete({
      messages: [{ role: 'user', content: 'What is 6 times 8?' }],
      response_format: { type: 'json_schema', json_schema: { name: 'product', schema } },
    })
  expect(choices).toMatchObject([{ finish_reason: 'stop' }])
  expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({ product: expect.any(Number) })
})

it('a judge on a real server scores an answer by a rubric', async () => {
  const schema = {
    type: 'object',
    properties: {
      explanation: { type: 'string', minLength: 1, maxLength: 40 },
      score: { type: 'integer', minimum: 0, maximum: 10 },
    },
    required: ['explanation', 'score'],
    additionalProperties: false,
  }
  // So small a model repeats itself without an end, and knows no ranges: a narrower schema than the judge's own holds it to both.
  const narrower = (body: object) => ({
    ...body,
    response_format: { type: 'json_schema', json_schema: { name: 'narrower', schema } },
  })
  await using proxy = await new RecordingProxy((await sharedModelServer()).url, narrower).start()
  const { votes, ...judged } = await evaluateRubric({
    model: { baseUrl: proxy.url, model: modelServerModel, apiKey: modelServerKey },
    rubric: 'The answer is a greeting.',
    answer: 'Hello!',
    scoreMax: 10,
  })
  const said = proxy.exchanges.map((exchange) => saidByServer(exchange).content)
  const { explanation, score } = JSON.parse(said.at(-1) ?? '') as typeof judged
  expect(judged).toEqual({ score, explanation: explanation.trim() })
  expect(votes).toEqual([judged])
})

it('a conversation that outgrows the context of a real server ends with what was said', async () => {
  const tools = multiply.tools?.map((tool) => ({ ...tool, execute: () => tooLong }))
  const { workflow, grading } = await execute(
    await sharedModelServer(),
    async () => runAgent({ ...multiply, ...(tools && { tools }) }),
    graded,
  )
  expect(workflow.failure ?? grading?.failure).toBeNull()
  const sample = grading?.samples.get('main')
  expect(sample).toMatchObject({ reward: 1, extraFields: { limit_reached: 'context' } })
  expect(sample?.calls.map(({ finishReason }) => finishReason)).toEqual(['tool_calls', null])
})

it('a prompt that does not fit into the context of a real server fails, and says so', async () => {
  const { workflow, grading } = await execute(
    await sharedModelServer(),
    async () => runAgent({ ...multiply, prompt: tooLong }),
    graded,
  )
  expect(workflow.failure?.message).toMatch(
    /^The prompt alone does not fit into the context of the policy\. .*exceeds the available context size \(2048 tokens\)/,
  )
  expect([...(grading?.samples.values() ?? [])].map(({ reward }) => reward)).toEqual([])
})

it('a real server that refuses the key of a rollout fails it, and says what to check', async () => {
  const { workflow } = await execute(await sharedModelServer(), async () => runAgent(multiply), {
    ...graded,
    apiKey: 'wrong',
  })
  expect(workflow.failure).toMatchObject({ category: 'http_error' })
  expect(workflow.failure?.message).toContain(
    '401: Invalid API Key. Check the API key that the rollout was sent with (apiKey).',
  )
})

it('a rollout waits for a real server that loads its model', async () => {
  const server = await ownModelServer()
  await using proxy = await new RecordingProxy(server.url).start()
  const running = execute(proxy, async () => runAgent(multiply), {
    ...graded,
    apiKey: modelServerKey,
  })
  // It is asked again after it said that it loads.
  await expect.poll(() => proxy.exchanges.length).toBeGreaterThan(1)
  server.release()
  const { workflow, grading } = await running
  expect(workflow.failure).toBeNull()
  expect([...(grading?.samples.values() ?? [])].map(({ reward }) => reward)).toEqual([1])
  await server.kill()
})

it('a real server that is killed while it answers fails the rollout, and nothing of it is graded', async () => {
  const server = await ownModelServer()
  server.release()
  await server.ready()
  const { workflow, grading } = await execute(
    server,
    async () => {
      // It would answer until the context is full.
      const stream = requireRolloutContext('The test')
        .policy('main')
        .stream({
          messages: [{ role: 'user', content: 'Tell me a story.' }],
          max_tokens: 2000,
          ignore_eos: true,
        })
      const chunks = stream[Symbol.asyncIterator]()
      await chunks.next()
      await server.kill()
      while (!(await chunks.next()).done);
    },
    graded,
  )
  expect(workflow.failure).toMatchObject({
    category: 'http_error',
    cause: { code: 'policy_stream_error' },
  })
  expect([...(grading?.samples.values() ?? [])].map(({ reward }) => reward)).toEqual([])
})
