import { readFileSync } from 'node:fs'
import path from 'node:path'

import { openRun } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { endpoint } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

it('osmosis eval run stores transcripts, graded samples and artifacts in one folder', async () => {
  const upstream = await endpoint((_, response) => {
    const message = { role: 'assistant', content: 'one' }
    const choice = { message, finish_reason: 'stop', token_ids: [5, 6] }
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ choices: [choice], usage }))
  })
  const output = temporaryFolder()
  const words = `eval run -m rollouts/storing/main.ts -d data/words.jsonl --limit 1 --output ${output} --base-url ${upstream.url}/v1 --model m --temperature 0.3 --max-tokens 9`
  const evaluate = async (flags: string): Promise<string> => {
    const { code } = await run(`${words} ${flags}`.split(' '))
    expect(code).toBe(0)
    return path.join(output, flags.split(' ').at(-1) ?? '')
  }
  const folder = await evaluate('--name plain')
  expect(upstream.received[0]?.body).toMatchObject({ temperature: 0.3, max_tokens: 9 })
  const reader = await openRun(folder)
  const [event] = reader.sortedEvents
  if (event === undefined) throw new Error('nothing was stored')
  expect(event).toMatchObject({
    row_index: 0,
    source_row_index: 0,
    calls: 1,
    tokens: 5,
    summary: 'one',
  })
  const said = await reader.trajectories(event)
  expect(said).toMatchObject({
    value: {
      echo: {
        steps: [{ source: 'user' }, { source: 'agent', message: 'one' }],
        final_metrics: { total_prompt_tokens: 3, total_completion_tokens: 2 },
      },
    },
  })
  expect(JSON.stringify(said)).not.toContain('token_ids')
  const graded = await reader.graded(event)
  expect(graded).toMatchObject({
    value: {
      label: 'one',
      samples: { echo: { messages: [{ role: 'user' }, { content: 'one' }] } },
    },
  })
  const artifacts = graded.state === 'found' ? (graded.value.artifacts ?? '') : ''
  expect(readFileSync(path.join(folder, artifacts, 'notes.txt'), 'utf8')).toBe('stored')
})
