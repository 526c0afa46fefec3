import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { expect, it } from 'vitest'

import { endpoint, say } from './model-endpoint.ts'
import { osmosis, temporaryFolder } from './osmosis.ts'

const guide = readFileSync(path.resolve(import.meta.dirname, '../../../docs/agent-loop.md'), 'utf8')

/** The program of the guide that mentions `marker`. */
function program(marker: string): string {
  const programs = [...guide.matchAll(/```ts\n([^]*?)```/g)].map(([, code = '']) => code)
  const found = programs.find((code) => code.includes(marker))
  if (found === undefined) throw new Error(`no program of the guide mentions ${marker}`)
  return found
}

function callTool(response: ServerResponse): void {
  const call = { name: 'add', arguments: '{"a": 5, "b": 3}' }
  const calls = [{ id: 'c', type: 'function', function: call }]
  const message = { role: 'assistant', content: null, tool_calls: calls }
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
  response.end(JSON.stringify({ choices: [{ message, finish_reason: 'tool_calls' }], usage }))
}

it('the eval functions of the guide score the agent of the guide by the command of the guide', async () => {
  // The new model goes through the tool twice; the old one chats.
  const { url } = await endpoint(({ body }, response) => {
    const { length } = body['messages'] as unknown[]
    if (body['model'] === 'my-old-model') say(response, 'It is 8.')
    else if (length < 5) callTool(response)
    else say(response, '8')
  })
  const folder = temporaryFolder()
  symlinkSync(
    path.resolve(import.meta.dirname, '../node_modules'),
    path.join(folder, 'node_modules'),
  )
  writeFileSync(path.join(folder, 'server.ts'), program('class CalculatorAgent'))
  writeFileSync(path.join(folder, 'rewards.ts'), program('// rewards.ts'))
  const row = { user_prompt: 'What is 5 + 3?', ground_truth: '8' }
  writeFileSync(path.join(folder, 'data.jsonl'), JSON.stringify(row))

  const [, command = ''] = /^osmosis (eval loop .*)$/m.exec(guide) ?? []
  const args = command.replace('http://127.0.0.1:8000', url).split(' ')
  const { code, stdout, stderr } = await osmosis(args, {}, folder)
  expect([code, stderr]).toEqual([
    0,
    'Evaluating the agent loop calculator of server.ts with my-model against my-old-model on 1 row × 4 runs of data.jsonl\n',
  ])
  const results = JSON.parse(readFileSync(path.join(folder, 'results.json'), 'utf8')) as unknown
  expect(results).toMatchObject({
    config: { n_runs: 4, eval_fns: ['rewards.ts:exact', 'rewards.ts:frugal'] },
    summary: { total_rows: 1, total_runs: 8 },
    model_summaries: [
      {
        model: 'my-model',
        eval_fns: {
          'rewards.ts:exact': { mean: 1, scored_runs: 4 },
          'rewards.ts:frugal': { mean: 0.5, scored_runs: 4 },
        },
      },
      {
        model: 'my-old-model',
        eval_fns: { 'rewards.ts:exact': { mean: 0 }, 'rewards.ts:frugal': { mean: 1 } },
      },
    ],
  })
  expect(stdout).toMatch(/Pass@1 +Pass@2 +Pass@4\n/)
})
