import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const main = `import { AgentWorkflow, defineWorkflowConfig, Grader } from '@osmosis/core'

export const config = defineWorkflowConfig({ name: 'counting', maxIterations: 10, style: { tone: 'plain' } })

export class Counting extends AgentWorkflow {
  async run({ prompt, config }) {
    return [...prompt, { role: 'assistant', content: config.style.tone + ' ' + config.maxIterations }]
  }
}

export class Grade extends Grader {
  async grade(ctx) {
    ctx.setReward(Number(/\\d+$/.exec(ctx.sample.messages.at(-1).content)[0]))
  }
}
`
const section =
  '[workflow]\nmax_iterations = 8\nstyle = { tone = "kind" }\n\n[secrets]\nrequired = []\n'

function workspace(
  files: Readonly<Record<string, string>> = {},
): (words: string) => ReturnType<typeof run> {
  const root = temporaryWorkspace({
    'rollouts/counting/main.ts': main,
    'configs/eval/counting.toml': evalConfig('counting', section),
    ...files,
  })
  const flags = '--policy policies/echo.ts --limit 1'
  return (words) =>
    run(words.replace('CONFIG', `configs/eval/counting.toml ${flags}`).split(' '), {}, root)
}

describe('fields of the config of a workflow', () => {
  it(
    'have the values of [workflow] and --set, which the run records and eval compare shows',
    { tags: 'slow' },
    async () => {
      const osmosis = workspace()
      const before = await osmosis('eval run CONFIG --name before')
      expect(before.stderr).toContain(
        '  Set        max_iterations = 8\n  Set        style = {"tone":"kind"}\n',
      )
      expect(before.stdout).toMatch(/Reward +8\n/)
      const after = await osmosis('eval run CONFIG --name after --workers 1 --set max_iterations=4')
      expect(after.stdout).toMatch(/Reward +4\n/)
      const shown = await osmosis('eval show after 0.1')
      expect(shown.stdout).toContain('kind 4')

      const { stdout } = await osmosis('eval compare before after --json')
      expect(JSON.parse(stdout)).toMatchObject({
        changed: [{ name: 'config: max_iterations', before: '8', after: '4' }],
      })
      const text = await osmosis('eval compare before after')
      expect(text.stdout).toMatch(/Changed +Before +After\nconfig: max_iterations +8 +4\n/)
      const markdown = await osmosis('eval compare before after --markdown')
      expect(markdown.stdout).toContain('| config: max\\_iterations | 8 | 4 |')
    },
  )

  it('make a run of each value that --set lists, and of each model of --models, and compare them', async () => {
    const osmosis = workspace({ 'policies/other.ts': "export { policy } from './echo.ts'\n" })
    const { code, stdout, stderr } = await osmosis(
      'eval run CONFIG --name sweep --set max_iterations=0,4 --set style.tone="a,b"',
    )
    expect(code).toBe(0)
    expect(stderr).toMatch(/\nmax_iterations=0 {2}1 of 2\n.*\nmax_iterations=4 {2}2 of 2\n/s)
    expect(stdout).toMatch(
      /^\n +Reward +Pass rate +Time +Run\nmax_iterations=0 +0 +0\.0 % +·{20} .* sweep-max_iterations-0\nmax_iterations=4 +4 +100\.0 % +█{20} .* sweep-max_iterations-4\n/,
    )
    expect(stdout).toMatch(
      /\nCompare {2}osmosis eval compare sweep-max_iterations-0 sweep-max_iterations-4\n/,
    )
    const shown = await osmosis('eval show sweep-max_iterations-4 0.1')
    expect(shown.stdout).toContain('a,b 4')

    const both = await osmosis(
      'eval run configs/eval/counting.toml --limit 1 --models policies/echo.ts,policies/other.ts --set max_iterations=1,2 --json',
    )
    expect(JSON.parse(both.stdout)).toMatchObject([
      { label: 'policies/echo.ts max_iterations=1', figures: { mean: { value: 1 } } },
      { label: 'policies/echo.ts max_iterations=2', workflow: { max_iterations: 2 } },
      { label: 'policies/other.ts max_iterations=1', model: 'policies/other.ts' },
      { label: 'policies/other.ts max_iterations=2', figures: { mean: { value: 2 } } },
    ])
  })

  it('number the names of runs whose values differ in no character that a name has', async () => {
    const osmosis = workspace()
    const { code, stdout } = await osmosis(
      'eval run CONFIG --name tones --json --set style.tone=a!,a?',
    )
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      [
        { label: 'style.tone=a!', run: 'tones-style.tone-a-' },
        { label: 'style.tone=a?', run: 'tones-style.tone-a--2' },
      ],
    ])
    const long = `eval run CONFIG --name ${'n'.repeat(80)} --set style.tone=a,abcdefghijklmnop`
    const refused = await osmosis(long)
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/^error: A run name has up to 96 letters/),
    ])
  })

  it('are inputs of a run: it is not resumed with others', async () => {
    const osmosis = workspace()
    await osmosis('eval run CONFIG --name one')
    const { code, stderr } = await osmosis('eval run CONFIG --name one --set max_iterations=4')
    expect(code).toBe(2)
    expect(stderr).toContain(
      'have changed: fields of the config of the workflow ([workflow] or --set).',
    )
  })

  it.each([
    ['--set iterations=8', 'has no field iterations: it has name, maxIterations, style.'],
    ['--set max_iterations=many', 'must be a number, got "many".'],
    ['--set style.colour=red', 'has no field style.colour: it has tone.'],
    ['--set max_iterations', 'It must be <field>=<value>, such as max_iterations=8.'],
    ['--models a,a', "--models must be different names, separated by commas, got 'a,a'."],
    ['--models a', 'Pass either --models or --policy'],
    ['--set max_iterations=1,2 --junit x.xml', '--junit is for one run'],
  ])('are refused: %s', async (flags, message) => {
    const { code, stderr } = await workspace()(`eval run CONFIG ${flags}`)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})
