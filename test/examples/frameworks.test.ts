import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { openRunFolder } from '@osmosis/eval'
import { frameworkOf, type ItemEvent } from '@osmosis/eval/analysis'
import { temporaryFolder } from '@osmosis/testing/kit'
import { expect, it } from 'vitest'

import { run } from './command.ts'

it.each([
  ['multiply-openai-agents', /^Agents\/JavaScript \d+\.\d+\.\d+$/],
  ['multiply-strands', /^strands-agents$/],
  ['multiply-ai-sdk', /^ai-sdk-agent\/tool-loop ai\/\d+\.\d+\.\d+/],
  ['multiply-mastra', /^ai-sdk$/],
  ['multiply-openai', /^OpenAI\/JS \d+\.\d+\.\d+$/],
  ['multiply-langgraph', /^langchainjs-openai\/\d+\.\d+\.\d+/],
])('the transcripts of %s name its framework', async (name, framework) => {
  const output = await temporaryFolder()
  const what = `-m examples/rollouts/${name}/main.ts -d examples/data/multiply.jsonl --limit 1`
  const policy = '--policy examples/policies/arithmetic.ts'
  const words = `eval run ${what} ${policy} --output ${output} --name r --yes`.split(' ')
  const { code, stderr } = await run('osmosis', words)
  expect([code, stderr]).toEqual([0, expect.anything()])

  const journal = await readFile(path.join(output, 'r/events.jsonl'), 'utf8')
  const folder = await openRunFolder(path.join(output, 'r'))
  const said = await folder.trajectories(JSON.parse(journal) as ItemEvent)
  const frameworks = said.state === 'found' ? Object.values(said.value).map(frameworkOf) : []
  expect(frameworks).toEqual([expect.stringMatching(framework)])
})
