import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

import { expect, it, onTestFinished } from 'vitest'

import { FakeTrainer, post, said, statusAndBody } from '../../../test/kit/index.ts'
import { metrics, toolCall, toolMessage } from './running-app.ts'

const serveIt = `
const { serve } = await import('@osmosis/server')
const { url } = await serve(createApp(agentLoop, { logger: false }), { port: 0 })
console.log(url)
`

/**
 * The first program of a document that mentions `marker`, served in a process of its own that
 * works in `folder`.
 */
async function serveProgram(document: string, marker: string, folder = '..'): Promise<string> {
  const text = await readFile(new URL(document, import.meta.url), 'utf8')
  const programs = [...text.matchAll(/```ts\n([^]*?)```/g)].map(([, program = '']) => program)
  const program = programs.find((code) => code.includes(marker)) ?? ''
  const importApp = program.includes('createApp,')
    ? ''
    : "const { createApp } = await import('@osmosis/agent-loop')\n"
  const child = spawn(
    process.execPath,
    ['--input-type=module-typescript', '--eval', program + importApp + serveIt],
    { cwd: fileURLToPath(new URL(folder, import.meta.url)), stdio: ['ignore', 'pipe', 'inherit'] },
  )
  onTestFinished(async () => {
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await exit).toStrictEqual([0, null])
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return line.toString().trim()
}

it('the complete agent of the guide calculates, counts, rewards and respects limits as the guide says', async () => {
  await using trainer = await new FakeTrainer().start()
  const calls = [
    toolCall('a', 'add', '{"a": 5, "b": 3}'),
    toolCall('m', 'multiply', '{"a": 0.1, "b": 3}'),
    toolCall('s', 'subtract', '{}'),
    toolCall('x', 'add', '[1]'),
  ]
  trainer.chatAnswers.push(said(null, calls), said('It is 8.'))
  const url = await serveProgram('../../../docs/guides/agent-loop.md', 'class CalculatorAgent')

  const init = trainer.initBody({ metadata: { ground_truth: '8' } })
  const accepted = await statusAndBody(await post(`${url}/v1/rollout/init`, init))
  expect(accepted).toMatchObject({
    status: 202,
    body: { tools: [{ function: { name: 'add' } }, { function: { name: 'multiply' } }] },
  })
  expect(await trainer.results()).toEqual([
    {
      rollout_id: 'r1',
      status: 'COMPLETED',
      final_messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: null, tool_calls: calls },
        toolMessage('a', '8'),
        toolMessage('m', '0.3'),
        toolMessage('s', 'Error: Unknown tool: subtract'),
        toolMessage('x', 'Error: Expected dict from JSON, got list'),
        { role: 'assistant', content: 'It is 8.' },
      ],
      finish_reason: 'stop',
      reward: 1,
      metrics: metrics({
        num_llm_calls: 2,
        num_tool_calls: 4,
        prompt_tokens: 20,
        response_tokens: 8,
      }),
      extra_fields: {},
    },
  ])

  trainer.policy = () => said(null, [toolCall('a', 'add', '{"a": 1, "b": 1}')])
  const run = async (limits: object): Promise<unknown> => {
    const count = trainer.completed.length + 1
    const limited = trainer.initBody({ rollout_id: `r${count}`, ...limits })
    await post(`${url}/v1/rollout/init`, limited)
    return (await trainer.results(count)).at(-1)
  }

  const turns = await run({ max_turns: 3 })
  expect(turns).toMatchObject({ finish_reason: 'max_turns', metrics: { num_llm_calls: 3 } })
  expect(turns).not.toHaveProperty('reward')
  expect(await run({ max_tokens_total: 8 })).toMatchObject({
    finish_reason: 'max_tokens',
    metrics: { num_llm_calls: 2, response_tokens: 8 },
  })
})

it(
  'the agent of the guide with an MCP server has the tools of that server',
  { tags: 'slow' },
  async () => {
    await using trainer = await new FakeTrainer().start()
    const remember = toolCall('a', 'remember', '{"note": "milk"}')
    trainer.chatAnswers.push(said(null, [remember]), said('Noted.'))
    const url = await serveProgram('../../../docs/guides/agent-loop.md', 'mcpAgentLoop({', '.')

    const accepted = await statusAndBody(await post(`${url}/v1/rollout/init`, trainer.initBody()))
    expect(accepted).toMatchObject({
      status: 202,
      body: { tools: [{ function: { name: 'remember' } }, { function: { name: 'crash' } }] },
    })
    expect(await trainer.results()).toMatchObject([
      {
        status: 'COMPLETED',
        final_messages: [{}, {}, toolMessage('a', 'milk'), { content: 'Noted.' }],
      },
    ])
  },
)

it('the program in the README adds', async () => {
  await using trainer = await new FakeTrainer().start()
  trainer.chatAnswers.push(said(null, [toolCall('a', 'add', '{"a": 5, "b": 3}')]), said('8'))
  const url = await serveProgram('../README.md', 'class Adder')
  await post(`${url}/v1/rollout/init`, trainer.initBody())
  expect(await trainer.results()).toMatchObject([
    { status: 'COMPLETED', final_messages: [{}, {}, toolMessage('a', '8'), { content: '8' }] },
  ])
})
