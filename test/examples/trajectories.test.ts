import { readdir, readFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { validateTrajectory, type Trajectory } from '@osmosis/eval'
import {
  answerStream,
  HttpPeer,
  post,
  sendJson,
  sendStream,
  type PeerRequest,
} from '../kit/index.ts'
import { describe, expect, it } from 'vitest'

import { serveExample } from './served-example.ts'

const first = answerStream({
  content: 'Let me see.',
  reasoning_content: 'Multiply them.',
  tool_calls: [
    { id: 'c1', type: 'function', function: { name: 'multiply', arguments: '{"a": 12, "b": 3}' } },
    { id: 'c2', type: 'function', function: { name: 'multiply', arguments: '{"a": 12' } },
  ],
})

/** A policy that asks for two products and then does what the rollout is called, and callbacks. */
class Controller extends HttpPeer {
  /** Number of grader callbacks. */
  graded = 0
  /** Whether a model call waits for an answer that will not come. */
  isWaiting = false

  protected override receive(
    { path: route, headers, body }: PeerRequest,
    out: ServerResponse,
  ): void {
    if (!route.endsWith('/chat/completions')) {
      out.writeHead(200).end('{}')
      if (route === '/grader') this.graded += 1
      this.wake()
      return
    }
    const { messages } = body as { messages: { role: string }[] }
    const rolloutId = headers['x-rollout-id']
    if (!messages.some(({ role }) => role === 'tool')) sendStream(out, first)
    else if (rolloutId === 'succeeds') sendStream(out, answerStream('The product:\n#### 36'))
    else if (rolloutId === 'fails') sendJson(out, 400, { error: { message: 'too long' } })
    else {
      this.isWaiting = true
      this.wake()
    }
  }
}

/** Serves an example, runs a rollout of each kind, and resolves with the folder of its documents. */
async function runAll(name: string): Promise<string> {
  await using controller = await new Controller().start()
  await using server = await serveExample(name)
  for (const rolloutId of ['succeeds', 'fails', 'is-cancelled']) {
    await post(`${server.url}/rollout`, {
      rollout_id: rolloutId,
      initial_messages: [{ role: 'user', content: 'val1 = 12\nval2 = 3' }],
      label: '36',
      chat_completions_url: `${controller.url}/v1`,
      completion_callback_url: `${controller.url}/completion`,
      grader_callback_url: `${controller.url}/grader`,
    })
  }
  await controller.until(() => controller.isWaiting)
  await post(`${server.url}/rollout/cancel`, { ids: ['is-cancelled'] })
  await controller.until(() => controller.graded === 3)
  return server.artifacts
}

describe.each([
  'multiply-openai-agents',
  'multiply-strands',
  'multiply-ai-sdk',
  'multiply-langgraph',
  'multiply-google-adk',
])('%s', (name) => {
  it('leaves a valid document of every rollout, with all that was said until it ended', async () => {
    const folder = await runAll(name)
    const read = async (rolloutId: string): Promise<Trajectory> => {
      const file = path.join(folder, rolloutId, 'trajectory.json')
      const document = JSON.parse(await readFile(file, 'utf8')) as Trajectory
      expect(validateTrajectory(document)).toEqual([])
      return document
    }
    const called = {
      source: 'agent',
      message: 'Let me see.',
      reasoning_content: 'Multiply them.',
      tool_calls: [
        { tool_call_id: 'c1', function_name: 'multiply', arguments: { a: 12, b: 3 } },
        { tool_call_id: 'c2', function_name: 'multiply', arguments: { _raw: '{"a": 12' } },
      ],
      observation: {
        results: [
          { source_call_id: 'c1', content: '36' },
          { source_call_id: 'c2', content: expect.any(String) },
        ],
      },
      metrics: { prompt_tokens: 3, completion_tokens: 2 },
    }

    const success = await read('succeeds')
    expect(success.steps.slice(-2)).toMatchObject([
      called,
      { source: 'agent', message: 'The product:\n#### 36' },
    ])
    expect(success.final_metrics).toMatchObject({ total_prompt_tokens: 6 })
    expect(success.extra?.['osmosis']).toMatchObject({ reward: 1, label: '36' })
    expect(await readdir(path.join(folder, 'succeeds'))).toEqual(['trajectory.json'])

    const failure = await read('fails')
    expect(failure.steps.at(-1)).toMatchObject(called)
    expect(failure.extra?.['osmosis']).toMatchObject({
      failures: [{ phase: 'workflow', message: expect.stringContaining('too long') }],
    })

    const cancelled = await read('is-cancelled')
    expect(cancelled.steps.at(-1)).toMatchObject(called)
    expect(cancelled.extra?.['osmosis']).toMatchObject({ failures: [{ message: 'cancelled' }] })
  })
})
