import { describe, expect, it } from 'vitest'

import { evalConfig } from './temporary-workspace.ts'
import { good, takenByAll, validate, workspaceOf } from './validated-rollouts.ts'

describe('osmosis validate', () => {
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
      'warn Osmosis: gets all samples (main, critic) where the server sends the results; results that the trainer fetches have room for one.',
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
      takenByAll[1],
      `warn Agent Lightning: ${trained}`,
      `warn POST /run: ${trained}`,
      takenByAll.at(-1),
    ])
  })

  it('names an entrypoint without a workflow', async () => {
    workspaceOf('', { 'rollouts/one/main.js': 'export const nothing = 0' })
    expect((await validate('one')).findings.at(-1)).toMatch(/^fail entrypoint: .*AgentWorkflow/)
  })

  it('runs an agent loop of a module on a row of a dataset', async () => {
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
      "ok entrypoint: exports the agent loop 'loop' with 0 tools",
      'ok model calls: 1 reached the policy',
      'fail reward: No reward was set for the conversation.',
      'ok this machine: can train it: osmosis train local',
      'ok trainers: Osmosis trains agent loops. Agent Lightning, Trinity and POST /run take workflows.',
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
      'warn sampling: The agent sets temperature 0. Unless the trainer overrides it, all attempts at a row are identical and give no training signal.',
    )
    expect(findings).toContain(
      'warn Agent Lightning: trains only the last of several model calls with one prompt, and there are such calls (sample main).',
    )
  })

  it('names step rewards, which most trainers never see', async () => {
    const grade = `ctx.setReward(1); ctx.setStepRewards('main', [0.5])`
    workspaceOf(`sample('main'); await say('main')`, {}, grade)
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings.slice(good.length)).toEqual([
      'ok reward: 1 for main',
      'warn step rewards: The grader sets step rewards, which only osmosis train, Trinity and the trace of POST /run use. Osmosis, Agent Lightning and the others train all model calls of a sample with the one reward of the sample.',
      ...takenByAll,
    ])
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
      'warn Osmosis: can train it only where the controller sends `group` with each rollout: others get no reward.',
      'warn Agent Lightning: sends no groups, which the grader needs: no rollout gets a reward.',
      'warn POST /run: sends groups only with --group-column: other rollouts get no reward.',
      'ok Trinity: can train it, with groups: osmosis worker --trinity',
    ]),
  )
})
