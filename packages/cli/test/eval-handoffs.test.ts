import { expect, it } from 'vitest'

import { run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

// An agent that hands over to another one, as frameworks do: the same conversation, other instructions.
const handsOver = `import { AgentWorkflow, Grader, requireRolloutContext } from '@osmosis/core'

export class HandsOverWorkflow extends AgentWorkflow {
  async run({ prompt }) {
    const policy = requireRolloutContext('handoff').registerPolicySample('main')
    const first = await policy.complete(
      { messages: [{ role: 'system', content: 'You triage.' }, ...prompt] },
      { agent: 'Triage' },
    )
    const messages = [...prompt, first.choices[0].message, { role: 'user', content: 'order 7' }]
    await policy.complete(
      { messages: [{ role: 'system', content: 'You refund.' }, ...messages] },
      { agent: 'Rückgabe' },
    )
  }
}

export class AlwaysGrader extends Grader {
  async grade(ctx) {
    ctx.setReward(1)
  }
}
`

const policy = `export const policy = {
  name: 'counted',
  respond: async ({ body }) => {
    const content = body.messages.at(-1).content.toUpperCase()
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
    const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }
    return Response.json({ id: crypto.randomUUID(), model: 'm', choices, usage })
  },
}
`

it('a transcript shows the instructions of each agent, and nobody is told off for them', async () => {
  const root = temporaryWorkspace({
    'rollouts/handoff/main.ts': handsOver,
    'policies/counted.ts': policy,
  })
  const output = temporaryFolder()
  const flags = `-m rollouts/handoff/main.ts -d data/words.jsonl --policy policies/counted.ts --name r --n 1 --rows 0 --quiet -o ${output}`
  expect(await run(['eval', 'run', ...flags.split(' ')], {}, root)).toMatchObject({ code: 0 })
  const show = async (...args: string[]): Promise<string> =>
    (await run(['eval', 'show', 'r', ...args, '-o', output], {}, root)).stdout

  const transcript = (await show('0.1')).replaceAll(/\d\.\d s/g, '0.0 s')
  expect(transcript.slice(transcript.indexOf('System'))).toContain(
    [
      'System  step 1',
      '  You triage.',
      '',
      'User  step 2',
      '  one',
      '',
      'Agent  step 3, 3 tokens after 9, 0.0 s',
      '  ONE',
      '',
      'User  step 4',
      '  order 7',
      '',
      '— other instructions from here, agent Rückgabe —',
      'System  step 5',
      '  You refund.',
      '',
      'Agent  step 6, 3 tokens after 9, 0.0 s',
      '  ORDER 7',
    ].join('\n'),
  )
  expect(transcript).not.toContain('rewritten')
  expect(await show('--details')).not.toMatch(/rewr/)
  expect(await show('--filter', 'is:rewritten')).not.toContain('0.1')
})
