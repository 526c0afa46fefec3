import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../../../test/kit/index.ts'
import { run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// The second row is compacted, by a call that is not training data.
const compacts = `import { AgentWorkflow, Grader, requireRolloutContext } from '@osmosis/core'

export class CompactsWorkflow extends AgentWorkflow {
  async run({ prompt }) {
    const policy = requireRolloutContext('compacts').registerPolicySample('main')
    const first = await policy.complete({ messages: prompt, temperature: 0.5 })
    if (prompt[0].content !== 'two') return
    const messages = [...prompt, first.choices[0].message, { role: 'user', content: 'sum up' }]
    await policy.complete({ messages }, { purpose: 'summary', agent: 'scribe', trainable: false })
    await policy.complete({ messages: [{ role: 'user', content: 'so far: one word' }] })
  }
}

export class AlwaysGrader extends Grader {
  async grade(ctx) {
    ctx.setReward(1)
  }
}
`

const versioned = `export const policy = {
  name: 'versioned',
  respond: async ({ body }) => {
    const content = body.messages.at(-1).content.toUpperCase()
    const message = { role: 'assistant', content }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    return Response.json({ id: crypto.randomUUID(), model: 'policy-7', choices })
  },
}
`

it('version and use of model calls are shown, found and respected', async () => {
  const root = temporaryWorkspace({
    'rollouts/compacts/main.ts': compacts,
    'policies/versioned.ts': versioned,
  })
  const output = temporaryFolder()
  const flags = `-m rollouts/compacts/main.ts -d data/words.jsonl --policy policies/versioned.ts --name r --n 1 --rows 0-1 --quiet -o ${output}`
  expect(await run(['eval', 'run', ...flags.split(' ')], {}, root)).toMatchObject({ code: 0 })
  const show = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await run(['eval', 'show', 'r', ...args, '-o', output], {}, root)
    return stdout + stderr
  }

  const found = await show('--filter', 'purpose:summary')
  expect(found).toContain('1.1')
  expect(found).not.toContain('0.1')
  expect(await show('--filter', 'version:policy-6')).toContain('there are: policy-7')
  expect(await show('--filter', 'version:policy-7 purpose:agent')).toMatch(/0\.1[^]*1\.1/)
  const transcript = await show('1.1', '--full')
  expect(transcript).toContain(
    'Another model call: agent scribe, policy-7, for summary, not training data',
  )
  const [, beside = ''] = transcript.split('— another conversation of the sample —')
  expect(beside.split('\n').map((line) => line.trim())).toEqual(
    expect.arrayContaining(['assistant', 'TWO', 'user', 'sum up', 'SUM UP']),
  )
  const brief = await show('1.1')
  expect(brief).toContain('2 other conversations of the sample (--full)')
  expect(brief).not.toContain('SUM UP')
  expect(await show('0.1', '--full')).toContain('policy-7, temperature 0.5')

  const sft = path.join(output, 'sft.jsonl')
  await run(['eval', 'export', 'r', '--sft', sft, '--filter', 'row:1', '-o', output], {}, root)
  const lines = readFileSync(sft, 'utf8').trim().split('\n')
  const said = lines.map((line) => {
    const { messages } = JSON.parse(line) as { messages: { role: string; content: string }[] }
    return messages.filter(({ role }) => role === 'user').map(({ content }) => content)
  })
  expect(said).toEqual([['two'], ['so far: one word']])
})

it('token ids and logprobs are neither asked for nor stored, also from a server that gives them', async () => {
  const id = 918273645
  const bodies: Record<string, unknown>[] = []
  const upstream = await startPolicyEndpoint((response, _, { body }) => {
    bodies.push(body)
    const message = { role: 'assistant', content: 'yes' }
    const logprobs = { content: [{ token: 'yes', logprob: -0.918273645 }] }
    const choice = { index: 0, message, finish_reason: 'stop', logprobs, token_ids: [id] }
    const given = {
      id: 'c1',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      prompt_token_ids: [id],
    }
    sendJson(response, 200, { ...given, choices: [choice] })
  })
  const root = temporaryWorkspace({ 'rollouts/compacts/main.ts': compacts })
  const output = temporaryFolder()
  const policy = `--base-url ${upstream.url}/v1 --model m`
  const flags = `-m rollouts/compacts/main.ts -d data/words.jsonl ${policy} --name r --n 1 --rows 0-1 --quiet -o ${output}`
  expect(await run(['eval', 'run', ...flags.split(' ')], {}, root)).toMatchObject({ code: 0 })
  expect(bodies.length).toBeGreaterThan(2)
  for (const body of bodies) {
    expect(Object.keys(body)).not.toContain('logprobs')
    expect(Object.keys(body)).not.toContain('return_token_ids')
  }
  const files = readdirSync(output, { recursive: true, withFileTypes: true })
  const stored = files
    .filter((file) => file.isFile())
    .map((file) => readFileSync(path.join(file.parentPath, file.name), 'utf8'))
  expect(stored.join('\n')).toContain('yes')
  expect(stored.join('\n')).not.toContain('918273645')
})
