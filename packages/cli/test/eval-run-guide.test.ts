// @module-tag slow
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import path from 'node:path'

import { expect, it } from 'vitest'

import { readResults, run as osmosis } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

const guide = readFileSync(
  path.resolve(import.meta.dirname, '../../../docs/guides/agent-loop.md'),
  'utf8',
)

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

  const [, command = ''] = /^npx osmosis (eval run .*)$/m.exec(guide) ?? []
  const args = command.replace('http://127.0.0.1:8000', url).split(' ')
  const { code, stdout } = await osmosis([...args, '--name', 'r'], {}, folder)
  expect(code).toBe(0)
  const [own, old] = ['my-model', 'my-old-model'].map((model) =>
    readResults(path.join(folder, `results/r-${model}`)),
  )
  expect([own?.run, old?.run]).toMatchObject([
    { model_name: 'my-model' },
    { model_name: 'my-old-model' },
  ])
  expect([own?.records.length, old?.records.length]).toEqual([4, 4])
  expect([own?.summary.scores, old?.summary.scores]).toMatchObject([
    {
      'rewards.ts:exact': { graded: 4, stats: { mean: 1 } },
      'rewards.ts:frugal': { graded: 4, stats: { mean: 0.5 } },
    },
    { 'rewards.ts:exact': { stats: { mean: 0 } }, 'rewards.ts:frugal': { stats: { mean: 1 } } },
  ])
  expect(stdout).toMatch(/^my-model .*\nmy-old-model /m)
})
