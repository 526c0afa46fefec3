import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { startPolicyServer } from '@osmosis/testing'
import { generateText, hasToolCall, isStepCount, streamText, tool, ToolLoopAgent } from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { callOfAdd as call, rolesOf, toolOutputs, tools } from './rollout.ts'

const stopAfterAdd = [isStepCount(20), hasToolCall('add')]

describe('the last tool result, which is not sent to a model, is part of the sample', () => {
  const answer = { toolCalls: [call('c1'), call('c2', '{"a":2,"b":2}')] }
  const outputs = [
    ['c1', { type: 'text', value: 'sum: 3' }],
    ['c2', { type: 'text', value: 'sum: 4' }],
  ]
  const options = { prompt: 'go', tools, stopWhen: stopAfterAdd }

  test.each<[string, () => Promise<unknown>]>([
    // First, because no listener of the SDK is registered before the first call of a process.
    ['of generateText', async () => generateText({ model: rolloutModel('main'), ...options })],
    [
      'of streamText',
      async () => streamText({ model: rolloutModel('main'), ...options }).consumeStream(),
    ],
    [
      'of a ToolLoopAgent',
      async () =>
        new ToolLoopAgent({ model: rolloutModel('main'), tools, stopWhen: stopAfterAdd }).generate({
          prompt: 'go',
        }),
    ],
    [
      'of an agent without telemetry',
      async () =>
        new OsmosisToolLoopAgent({
          id: 'main',
          model: rolloutModel(),
          tools,
          stopWhen: stopAfterAdd,
          telemetry: { isEnabled: false },
        }).generate({ prompt: 'go' }),
    ],
    [
      'of an agent that streams',
      async () => {
        const agent = new OsmosisToolLoopAgent({
          id: 'main',
          model: rolloutModel(),
          tools,
          stopWhen: stopAfterAdd,
          telemetry: { recordOutputs: false },
        })
        await (await agent.stream({ prompt: 'go' })).consumeStream()
      },
    ],
  ])('%s', async (_of, run) => {
    await using server = await startPolicyServer([answer])
    const rollout = rolloutOn(server)
    await rollout.run(run)
    const sample = await sampleOf(rollout, 'main')
    expect(rolesOf(sample)).toEqual(['user', 'assistant', 'tool'])
    expect(toolOutputs(sample)).toEqual(outputs)
    expect(sample.trajectoryMessages?.map(({ role }) => role)).toEqual(['user', 'assistant'])
  })

  test('as the tool shows it to the model, errors included', async () => {
    await using server = await startPolicyServer([
      {
        toolCalls: [
          { id: 'c1', name: 'submit', arguments: '{}' },
          { id: 'c2', name: 'fail', arguments: '{}' },
        ],
      },
    ])
    const rollout = rolloutOn(server)
    const inputSchema = z.object({})
    await rollout.run(async () =>
      generateText({
        model: rolloutModel('main'),
        prompt: 'go',
        tools: {
          submit: tool({
            inputSchema,
            execute: () => ({ secret: 1, shown: 2 }),
            toModelOutput: ({ output }) => ({ type: 'json', value: { shown: output.shown } }),
          }),
          fail: tool({
            inputSchema,
            execute: (): string => {
              throw new Error('no disk')
            },
          }),
        },
      }),
    )
    expect(toolOutputs(await sampleOf(rollout, 'main'))).toEqual([
      ['c1', { type: 'json', value: { shown: 2 } }],
      ['c2', { type: 'error-text', value: 'Error: no disk' }],
    ])
  })

  test('also of two agents in parallel that use the same ids for their calls', async () => {
    await using server = await startPolicyServer((request) => ({
      toolCalls: [
        call(
          'c1',
          request.headers['x-sample-id'] === 'planner' ? '{"a":1,"b":1}' : '{"a":9,"b":9}',
        ),
      ],
    }))
    const rollout = rolloutOn(server)
    await rollout.run(async () =>
      Promise.all([
        generateText({ model: rolloutModel('planner'), ...options }),
        streamText({ model: rolloutModel('executor'), ...options }).consumeStream(),
      ]),
    )
    expect(toolOutputs(await sampleOf(rollout, 'planner'))).toEqual([
      ['c1', { type: 'text', value: 'sum: 2' }],
    ])
    expect(toolOutputs(await sampleOf(rollout, 'executor'))).toEqual([
      ['c1', { type: 'text', value: 'sum: 18' }],
    ])
  })

  test('unless the telemetry of a plain call is disabled', async () => {
    for (const telemetry of [{ isEnabled: false }, { integrations: [] }]) {
      await using server = await startPolicyServer([answer])
      const rollout = rolloutOn(server)
      await rollout.run(async () =>
        generateText({ model: rolloutModel('main'), ...options, telemetry }),
      )
      expect(rolesOf(await sampleOf(rollout, 'main'))).toEqual(['user', 'assistant'])
    }
  })
})
