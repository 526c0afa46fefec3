import { describe, expect, it, vi } from 'vitest'

import { startPlainController, type Answer } from './plain-controller.ts'
import { serveExample } from './served-example.ts'

function call(id: string, args: string): NonNullable<Answer['tool_calls']>[number] {
  return { id, type: 'function', function: { name: 'multiply', arguments: args } }
}

describe.each([
  ['multiply-openai-agents', /^Agents\/JavaScript \d+\.\d+\.\d+$/],
  ['multiply-strands', /^strands-agents$/],
  ['multiply-ai-sdk', /^ai-sdk-agent\/tool-loop ai\/\d+\.\d+\.\d+/],
  ['multiply-mastra', /^mastra$/],
  ['multiply-pi', /^pi$/],
  ['multiply-openai', /^OpenAI\/JS \d+\.\d+\.\d+$/],
  ['multiply-langgraph', /^langchain$/],
  ['multiply-google-adk', /^google-adk$/],
])('%s', (name, framework) => {
  it(
    'is driven by any HTTP client that acts as the controller, and reports its framework to it',
    { tags: 'slow' },
    async () => {
      const answers: Answer[] = [
        {
          content: 'First the product, twice.',
          reasoning_content: 'Spaces matter.',
          tool_calls: [call('c1', '{ "a" : 12.0,  "b": 3 }'), call('c2', '{"b": 3,"a": 1.2e1}')],
        },
        { content: null, tool_calls: [call('c3', '{"a": 12345678901234567890, "b": 1}')] },
        // A graph of LangGraph.js treats such a turn as one without tool calls, and ends.
        ...(name.includes('langgraph')
          ? []
          : [{ content: null, tool_calls: [call('c4', '{"a": 12, "b"')] }]),
        { content: 'The product is below.\n#### 36' },
      ]
      // Mastra logs there how it handles malformed arguments.
      if (name.includes('mastra')) vi.spyOn(console, 'error').mockImplementation(() => {})
      await using controller = await startPlainController(answers)
      await using server = await serveExample(name)
      const prompt = [
        { role: 'system', content: 'You multiply.' },
        { role: 'user', content: 'val1 = 12\nval2 = 3' },
      ]
      const admitted = await fetch(`${server.url}/rollout`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          rollout_id: 'r-1',
          initial_messages: prompt,
          label: '36',
          chat_completions_url: `${controller.url}/v1`,
          controller_api_key: 'controller-key',
          llm_api_key: 'llm-key',
          completion_callback_url: `${controller.url}/completion`,
          grader_callback_url: `${controller.url}/grader`,
        }),
      })
      expect([admitted.status, await admitted.json()]).toEqual([202, {}])
      await controller.graded

      const { received } = controller
      expect(received.map(({ kind }) => kind)).toEqual([
        ...answers.map(() => 'policy'),
        'completion',
        'grader',
      ])

      const requests = received
        .filter(({ kind }) => kind === 'policy')
        .map(
          ({ raw }) => JSON.parse(raw) as { messages: unknown[]; model: string; stream: boolean },
        )
      for (const [turn, request] of requests.entries()) {
        expect(received[turn]?.headers).toMatchObject({
          'x-rollout-id': 'r-1',
          'x-sample-id': 'multiply-agent',
          authorization: 'Bearer llm-key',
          'user-agent': expect.stringMatching(framework),
        })
        expect(request).toMatchObject({ model: 'osmosis-rollout', stream: true })
        const previous = requests[turn - 1]
        if (previous === undefined) continue
        expect(request.messages.slice(0, previous.messages.length + 1)).toEqual([
          ...previous.messages,
          onTheWire(answers[turn - 1]),
        ])
      }
      expect(
        requests
          .at(-1)
          ?.messages.filter(isToolResult)
          .map(({ content }) => content),
      ).toEqual([
        '36',
        '36',
        // The tool works with doubles; only the conversation keeps every digit.
        String(Number('12345678901234567890')),
        ...answers.slice(3).map(() => expect.any(String) as unknown),
      ])

      const [completion, grader] = received.slice(answers.length)
      expect([completion?.headers.authorization, grader?.headers.authorization]).toEqual([
        'Bearer controller-key',
        'Bearer controller-key',
      ])
      expect(JSON.parse(completion?.raw ?? '')).toEqual({
        rollout_id: 'r-1',
        status: 'success',
        extra_fields: null,
        err_message: null,
        err_category: null,
      })
      const graded = JSON.parse(grader?.raw ?? '') as { samples: Record<string, object> }
      const { id: _id, ...sample } = graded.samples['multiply-agent'] as { id: string }
      const report = {
        id: null,
        version: null,
        purpose: 'agent',
        trainable: true,
        sampling: expect.any(Object) as unknown,
        step_reward: null,
      }
      expect(graded).toEqual({
        rollout_id: 'r-1',
        status: 'success',
        samples: { 'multiply-agent': { id: 'multiply-agent', ...sample } },
        sample,
        err_message: null,
        err_category: null,
        extra_fields: { calls: { 'multiply-agent': answers.map(() => report) } },
      })
      expect(sample).toMatchObject({ reward: 1, remove_sample: false, label: null, metrics: {} })
    },
  )
})

/** What the policy said, as the next request has to repeat it. */
function onTheWire(answer: Answer | undefined): object {
  const calls = answer?.tool_calls?.map((toolCall) =>
    // Arguments that are not a JSON object are sent back as an empty one, because chat templates parse them.
    toolCall.id === 'c4' ? call('c4', '{}') : toolCall,
  )
  return { role: 'assistant', ...answer, ...(calls ? { tool_calls: calls } : {}) }
}

function isToolResult(message: unknown): message is { content: string } {
  return (message as { role?: string }).role === 'tool'
}
