import { describe, expect, it } from 'vitest'

import { run, workIn } from './in-process.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

/** A workspace of one rollout; its workflow does `body` with `rollout`, `messages` and `say()`. */
function workspaceOf(
  body: string,
  files: Readonly<Record<string, string>> = {},
  grade = 'for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)',
): void {
  const main = `import { AgentWorkflow, defineWorkflowConfig, Grader, requireRolloutContext, toRolloutSample } from '@osmosis/core'
export const config = defineWorkflowConfig({ name: 'one' })
export class One extends AgentWorkflow {
  async run(ctx) {
    const rollout = requireRolloutContext('One')
    let messages = [...ctx.prompt]
    const sample = (id) => rollout.registerSampleSource(id, { getSample: () => toRolloutSample({ id, messages }) })
    const say = async (id) => {
      const { choices } = await rollout.policy(id).complete({ messages })
      messages.push(choices[0].message)
    }
    ${body}
  }
}
export class Judge extends Grader {
  async grade(ctx) { ${grade} }
}
`
  const root = temporaryWorkspace({
    'package.json': '{ "type": "module" }',
    'rollouts/one/main.js': main,
    'configs/eval/one.toml': evalConfig('one').replace('main.ts', 'main.js'),
    ...files,
  })
  workIn(root)
}

interface Report {
  readonly code: number | null
  readonly findings: readonly string[]
}

/** Validates, and reads what came of it: \`level check: message\`. */
async function validate(...args: readonly string[]): Promise<Report> {
  const { code, stdout, stderr } = await run(['rollout', 'validate', ...args, '--json'])
  if (stdout === '') throw new Error(stderr)
  const { rollouts } = JSON.parse(stdout) as {
    rollouts: { findings: { level: string; check: string; message: string }[] }[]
  }
  const all = rollouts.flatMap(({ findings }) => findings)
  return { code, findings: all.map(({ level, check, message }) => `${level} ${check}: ${message}`) }
}

const takenByAll = [
  'ok Osmosis: takes it over callbacks and over leases',
  'ok Agent Lightning: takes it: osmosis worker --agent-lightning',
  'ok POST /run: takes it: osmosis serve --run',
  'ok Trinity: takes it, each sample with its own reward: osmosis worker --trinity',
]

const good = [
  'ok config: configs/eval/one.toml',
  'ok entrypoint: exports a workflow',
  'ok model calls: 1 reached the policy',
]

describe('osmosis rollout validate', () => {
  it('finds nothing about a rollout that is ready, and says so for people', async () => {
    workspaceOf(`sample('main'); await say('main')`)
    expect(await validate('one')).toEqual({
      code: 0,
      findings: [...good, 'ok reward: 1 for main', ...takenByAll],
    })
    const { code, stdout } = await run(['rollout', 'validate', 'one'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^one\nok {4}config {11}configs\/eval\/one\.toml\n/)
  })

  it('names an agent that asks a model of its own', async () => {
    workspaceOf(`sample('main'); messages.push({ role: 'assistant', content: 'ONE' })`)
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings).toContain('fail model calls: The policy was never asked.')
  })

  it('names a rollout without a sample', async () => {
    workspaceOf(`await say('main')`)
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings.at(-1)).toMatch(/^fail rollout: The rollout ended with failure: .*sample/)
  })

  it('names samples that are too many, and those without a reward', async () => {
    workspaceOf(`sample('main'); await say('main'); sample('critic'); await say('critic')`)
    const two = await validate('one')
    expect(two.code).toBe(0)
    const oneReward =
      'takes one reward per rollout, and this one has several samples: main, critic.'
    expect(two.findings.slice(-4)).toStrictEqual([
      'warn Osmosis: takes all samples (main, critic) over callbacks; results that are fetched have room for one.',
      `warn Agent Lightning: ${oneReward}`,
      `warn POST /run: ${oneReward}`,
      takenByAll.at(-1),
    ])

    workspaceOf(`sample('main'); await say('main')`, {}, '')
    const none = await validate('one')
    expect(none.code).toBe(1)
    expect(none.findings.at(-1)).toMatch(/^fail rollout: .*reward/)
  })

  it('names samples that are removed, where all model calls are trained with one reward', async () => {
    workspaceOf(
      `sample('main'); await say('main'); sample('critic'); await say('critic')`,
      {},
      `ctx.setSampleReward('main', 1); ctx.removeSample('critic')`,
    )
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    const trained =
      'trains all model calls of a rollout with one reward, those of removed samples (critic) too: the rollout would fail.'
    expect(findings.slice(-4)).toStrictEqual([
      takenByAll[0],
      `warn Agent Lightning: ${trained}`,
      `warn POST /run: ${trained}`,
      takenByAll.at(-1),
    ])
  })

  it('names a history that was rewritten', async () => {
    workspaceOf(
      `sample('main'); await say('main'); messages = [{ role: 'user', content: 'In short?' }]; await say('main')`,
    )
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings.at(-1)).toMatch(/^warn history: .* \(sample main\): training splits/)
  })

  it('names what a trainer would lose of the requests', async () => {
    workspaceOf(
      `sample('main'); const ask = { messages: [...messages], temperature: 0 }
       await rollout.policy('main').complete(ask); await rollout.policy('main').complete(ask)`,
    )
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings).toContain(
      'warn sampling: The agent asks for temperature 0. Where the trainer does not set its own, all attempts at a row would be alike, and none would teach.',
    )
    expect(findings).toContain(
      'warn Agent Lightning: trains only the last of several model calls with one prompt, and there are such calls (sample main).',
    )
  })

  it('names an entrypoint without a grader, and one without a workflow', async () => {
    const workflow = `import { AgentWorkflow } from '@osmosis/core'
export class One extends AgentWorkflow { async run() {} }`
    workspaceOf('', { 'rollouts/one/main.js': workflow })
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings.slice(1)).toEqual([
      'ok entrypoint: exports a workflow',
      'fail grader: The entrypoint exports no grader, so no rollout gets a reward.',
      'warn workflow config: The entrypoint exports no workflow config: at most 4 rollouts run at the same time.',
    ])

    workspaceOf('', { 'rollouts/one/main.js': 'export const nothing = 0' })
    expect((await validate('one')).findings.at(-1)).toMatch(/^fail entrypoint: .*AgentWorkflow/)
  })

  it('names variables that the code reads and the config does not name', async () => {
    workspaceOf(`sample('main'); await say('main')`, {
      'rollouts/one/tools.ts': `process.env.SHOP_TOKEN; process.env['SHOP_URL']; process.env.KNOWN; process.env.PATH`,
      'configs/eval/one.toml': `${evalConfig('one').replace('main.ts', 'main.js')}[env]\nKNOWN = "1"\n`,
    })
    expect((await validate()).findings).toContain(
      'warn variables: The code reads SHOP_TOKEN, SHOP_URL, which the config does not name: on the platform nothing sets them.',
    )
  })

  it('names configs that the platform would refuse, and a rollout without one', async () => {
    workspaceOf(`sample('main'); await say('main')`, {
      'configs/training/one.toml': evalConfig('one').replace('model_path = "test/model"\n', ''),
      'rollouts/two/main.js': '',
    })
    const { code, findings } = await validate()
    expect(code).toBe(1)
    expect(findings).toContainEqual(
      expect.stringMatching(
        /^fail config: The platform would refuse configs\/training\/one\.toml:\n- experiment\.model_path/,
      ),
    )
    expect(findings).toContain('fail config: No config in configs/eval/ names the rollout two.')
  })

  it('asks the default policy of the workspace only when that is code', async () => {
    workspaceOf(`sample('main'); await say('main')`, {
      'osmosis.toml': `default_policy = "paid"\n[policies.paid]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n`,
    })
    expect((await validate()).findings).toContain('ok model calls: 1 reached the policy')
    const { code, findings } = await validate('--policy', 'paid')
    expect(code).toBe(1)
    expect(findings).toContainEqual(expect.stringMatching(/^fail policy: /))
  })

  it('takes a module and its dataset, agent loops as well', async () => {
    workspaceOf('', {
      'loop.ts': `import { RolloutAgentLoop } from '@osmosis/agent-loop'
class Loop extends RolloutAgentLoop {
  readonly name = 'loop'
  getTools() { return [] }
  async run(ctx: any) {
    const { message } = await ctx.chat(ctx.request.messages, ctx.request.completionParams)
    return ctx.complete([...ctx.request.messages, message])
  }
}
export const loop = new Loop()`,
    })
    const { code, findings } = await validate('-m', 'loop.ts:loop', '-d', 'data/words.jsonl')
    expect(code).toBe(1)
    expect(findings).toEqual([
      'ok entrypoint: exports an agent loop',
      'ok model calls: 1 reached the policy',
      'fail reward: There is no reward for the conversation.',
      'ok trainers: Osmosis trains agent loops. Agent Lightning, Trinity and POST /run take workflows.',
    ])
    expect(await validate('-m', 'loop.ts:loop')).toEqual({
      code: 0,
      findings: [
        'ok entrypoint: exports an agent loop',
        'warn rollout: No rollout was run, because there is no row.',
      ],
    })
  })

  it('checks an agent loop as the server does', async () => {
    workspaceOf('', {
      'loop.ts': `import { RolloutAgentLoop } from '@osmosis/agent-loop'
export const loop = new (class extends RolloutAgentLoop {
  readonly name = ''
  getTools() { return [] }
  async run(ctx: any) { return ctx.complete([]) }
})()`,
    })
    const { code, findings } = await validate('-m', 'loop.ts')
    expect(code).toBe(1)
    expect(findings[0]).toMatch(/^fail entrypoint: .*'name' that is empty/s)
  })

  it.each([
    [['nobody'], /There is no rollout nobody in rollouts\/\. There are: echo, one\./],
    [['one', '-m', 'x.ts'], /Name what to validate once/],
    [['-d', 'data/words.jsonl'], /--dataset goes with --module/],
  ])('refuses %j', async (args, message) => {
    workspaceOf('')
    const { code, stderr } = await run(['rollout', 'validate', ...args])
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
  })
})

it('a grader of groups is tried with a group, and said to which trainers it suits', async () => {
  const grader = `import { GroupGrader } from '@osmosis/core'
export { One, config } from '../one/main.js'
export class Compares extends GroupGrader {
  async gradeGroup({ members }) { for (const member of members) member.setReward(member.attempt) }
}
`
  workspaceOf("sample('main')\n await say('main')", {
    'rollouts/two/main.js': grader,
    'configs/eval/two.toml': evalConfig('two').replace('main.ts', 'main.js'),
  })
  const { code, findings } = await validate('two')
  expect(code).toBe(0)
  expect(findings).toEqual(
    expect.arrayContaining([
      'warn Osmosis: takes it only where the controller sends `group` with each rollout: others get no reward.',
      'warn Agent Lightning: gives no groups, which the grader needs: no rollout gets a reward.',
      'warn POST /run: gives groups only when it is said which rows belong together: others get no reward.',
      'ok Trinity: takes it, with groups: osmosis worker --trinity',
    ]),
  )
}, 30_000)
