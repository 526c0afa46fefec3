import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

/** Ends in a tool call, as frameworks ask for an object. */
const policy = `import { scriptedPolicy, type PolicyModel } from '@osmosis/controller'
export const policy: PolicyModel = scriptedPolicy(({ messages }) => ({
  toolCalls: [{ id: 'c1', name: 'extract', arguments: { word: String(messages.at(-1)?.content).toUpperCase(), found: true } }],
}))
`

function workflow(last: string, answer: string): string {
  return `import { AgentWorkflow, Grader, lastAssistantText, requireRolloutContext } from '@osmosis/core'

export class Extract extends AgentWorkflow {
  async run(ctx) {
    const policy = requireRolloutContext('Extract').registerPolicySample('extract')
    const { choices } = await policy.complete({ messages: [...ctx.prompt] })
    const [call] = choices[0].message.tool_calls
    const object = JSON.parse(call.function.arguments)
    ${last}
  }
}

export class Judge extends Grader {
  async grade(ctx) {
    const answer = ${answer}
    ctx.setReward(answer === ctx.label.toUpperCase() ? 1 : 0)
  }
}
`
}

const strict = `import { Grader } from '@osmosis/core'
export class Strict extends Grader {
  async grade(ctx) {
    ctx.setReward(ctx.output?.word === 'ONE' ? 1 : 0)
  }
}
`

function extracting(
  last: string,
  answer = 'ctx.output.word',
): (words: string) => ReturnType<typeof run> {
  const root = temporaryWorkspace({
    'rollouts/extract/main.ts': workflow(last, answer),
    'policies/extract.ts': policy,
    'strict.ts': strict,
    'configs/eval/extract.toml': evalConfig('extract'),
  })
  return async (words) => run(words.split(' '), {}, root)
}

const evaluation = 'eval run configs/eval/extract.toml --policy policies/extract.ts --name r'

describe('an agent that ends with an object instead of a text', () => {
  it('is graded by what run() returned, which transcripts show and a later grading reads', async () => {
    const osmosis = extracting('return object')
    const evaluated = await osmosis(`${evaluation} --details`)
    expect(evaluated.stdout).toMatch(/Pass rate +75.0 %/)
    expect(evaluated.stdout).not.toContain('ended without a text')

    const shown = await osmosis('eval show r 0.1')
    expect(shown.stdout).toContain(
      'Output of run()\n  {\n    "word": "ONE",\n    "found": true\n  }',
    )
    const listed = await osmosis('eval show r --filter is:notpassed')
    expect(listed.stdout).toContain('{"word":"THREE?","found":true}')

    const same = await osmosis('eval regrade r')
    expect(same.stdout).toContain('No verdict has changed.')
    const graded = await osmosis('eval regrade r --grader strict.ts --as strict')
    expect(graded.stdout).toContain('verdicts have changed')
    expect(graded.stdout).not.toContain('1: 1 → 1')
  })

  it('has no invented output when run() returned nothing, also in a later grading', async () => {
    const osmosis = extracting('void object')
    const evaluated = await osmosis(`${evaluation} --details`)
    expect(evaluated.stdout).toContain('There is no ctx.output, because run() returned nothing.')

    const regraded = await osmosis('eval regrade r --grader strict.ts --as strict')
    expect(regraded.stdout).toContain('There is no ctx.output, because run() returned nothing.')
  })

  it('is looked at first when its grader finds no text and no output', async () => {
    const osmosis = extracting('void object', 'lastAssistantText(ctx.sample)')
    const { stdout } = await osmosis(`${evaluation} --details`)
    const words = stdout.replaceAll(/\s+/g, ' ')
    expect(words).toMatch(
      /Look at first ! 4 ended without a text\. A grader that reads the last text finds nothing/,
    )
    expect(words).toContain('--filter is:notext')
  })
})
