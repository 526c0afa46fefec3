import { rmSync, truncateSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { here, run, useProcesses } from './in-process.ts'
import { endpoint, refuse, say } from './model-endpoint.ts'
import { evalConfig } from './temporary-workspace.ts'
import { good, takenByAll, validate, workspaceOf } from './validated-rollouts.ts'

/** An agent loop that asks once. */
const loopModule = `import { RolloutAgentLoop } from '@osmosis/agent-loop'
class Loop extends RolloutAgentLoop {
  readonly name = 'loop'
  getTools() { return [] }
  async run(ctx: any) {
    const { message } = await ctx.chat(ctx.request.messages, ctx.request.completionParams)
    return ctx.complete([...ctx.request.messages, message])
  }
}
export const loop = new Loop()`

describe('osmosis validate', () => {
  it('finds nothing about a rollout that is ready', async () => {
    workspaceOf(`sample('main'); await say('main')`)
    expect(await validate('one')).toEqual({
      code: 0,
      findings: [...good, 'ok reward: 1 for main', ...takenByAll],
    })
  })

  it('names an agent that asks a model of its own', async () => {
    workspaceOf(`sample('main'); messages.push({ role: 'assistant', content: 'ONE' })`)
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings).toContain('fail model calls: No model call reached the policy.')
  })

  it('takes no call that is sent again after a refusal for one with the same prompt', async () => {
    workspaceOf(`sample('main'); await say('main')`)
    const { url, received } = await endpoint((_request, response) => {
      if (received.length % 2 === 1) refuse(response, 503, 'busy')
      else say(response, 'ONE')
    })
    const { findings } = await validate('one', '--base-url', `${url}/v1`, '--model', 'm')
    expect(findings.slice(-takenByAll.length)).toEqual(takenByAll)
    expect(received).toHaveLength(4)
  })

  it('names the model of the adapter that the project has', async () => {
    const dependencies = { '@osmosis/core': '*', '@osmosis/langchain': '*' }
    workspaceOf('', { 'package.json': JSON.stringify({ type: 'module', dependencies }) })
    const { stdout } = await run(['validate', 'one'])
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'Give the agent OsmosisChatModel of @osmosis/langchain instead of its old model',
    )
  })

  it('names the stream function of Pi, which takes no model', async () => {
    const dependencies = { '@osmosis/core': '*', '@osmosis/pi': '*' }
    workspaceOf(`throw new Error('No API key for provider: openai')`, {
      'package.json': JSON.stringify({ type: 'module', dependencies }),
    })
    const { stdout } = await run(['validate', 'one'])
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'has kept its old model. Give the agent rolloutStreamFn() of @osmosis/pi instead of its old stream function',
    )
  })

  it('warns about a tool that throws, although the rollout has a reward', async () => {
    workspaceOf(`sample('main')
    const made = { id: 'c1', type: 'function', function: { name: 'multiply', arguments: '{}' } }
    messages.push({ role: 'assistant', content: '', tool_calls: [made] })
    messages.push({ role: 'tool', tool_call_id: 'c1', content: 'TypeError: shop db down' })
    await say('main')`)
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings).toContain('warn tools: multiply failed: TypeError: shop db down')
  })

  it('names an entrypoint without a grader', async () => {
    const workflow = `import { AgentWorkflow } from '@osmosis/core'
export class One extends AgentWorkflow { async run() {} }`
    workspaceOf('', { 'rollouts/one/main.js': workflow })
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    const { stdout } = await run(['validate', 'one'])
    expect(stdout).toContain('ctx.setReward(…)')
    expect(findings.slice(1)).toEqual([
      'ok entrypoint: exports a workflow',
      'fail grader: The entrypoint exports no grader, so no rollout gets a reward.',
      'warn workflow config: The entrypoint exports no workflow config: at most 4 rollouts run concurrently.',
    ])
  })

  it('validates a module, also of an agent loop, and prints the result', async () => {
    workspaceOf('', { 'loop.ts': loopModule })
    const { code, stdout } = await run(['validate', '-m', 'loop.ts:loop'])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^loop\.ts:loop\nok {4}entrypoint {2}exports the agent loop 'loop' with 0 tools\nwarn {2}rollout {5}No rollout was run, because no dataset is named\.\n/,
    )
  })

  it.each([
    ['pnpm-lock.yaml', `import '@acme/tools/search'`, 'pnpm add @acme/tools'],
    ['package-lock.json', `require('left-pad-2/x')`, 'npm install left-pad-2'],
    ['yarn.lock', `import './helper.ts'`, 'Correct the entrypoint.'],
  ])('says how to install what an entrypoint imports: %s, %s', async (lock, line, advice) => {
    const main = `import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
${line}`
    workspaceOf('', { [lock]: '', 'rollouts/one/main.js': main })
    const { stdout } = await run(['validate', 'one', '--json'])
    const { rollouts } = JSON.parse(stdout) as { rollouts: { findings: object[] }[] }
    expect(rollouts[0]?.findings[1]).toMatchObject({
      level: 'fail',
      check: 'entrypoint',
      message: expect.stringContaining('Cannot load the entrypoint') as string,
      file: 'rollouts/one/main.js',
      advice,
    })
  })

  it('names the rows that there are, where --row names none of them', async () => {
    workspaceOf(`sample('main'); await say('main')`)
    const { code, stdout } = await run(['validate', 'one', '--row', '99', '--json'])
    expect(code).toBe(1)
    const { rollouts } = JSON.parse(stdout) as { rollouts: { findings: object[] }[] }
    expect(rollouts[0]?.findings.at(-1)).toMatchObject({
      level: 'fail',
      check: 'dataset',
      message: '--row 99 is out of range: data/words.jsonl has 4 rows, counted from 0.',
      advice: 'Pass a --row from 0 to 3.',
    })
  })

  it.each([
    [['unknown'], /rollouts\/ has no rollout unknown\. Available: echo, one\./],
    [['one', '-m', 'x.ts'], /Name either a rollout of the workspace/],
    [['-d', 'data/words.jsonl'], /--dataset goes with --module/],
  ])('refuses %j', async (args, message) => {
    workspaceOf('')
    const { code, stderr } = await run(['validate', ...args])
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})

describe('osmosis validate', { tags: 'nightly' }, () => {
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
      takenByAll[0],
      'warn Osmosis: gets all samples (main, critic) where the server sends the results; results that the trainer fetches have room for one.',
      `warn Agent Lightning: ${oneReward}`,
      `warn POST /run: ${oneReward}`,
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
    expect(findings).toContain(
      "ok sample: critic: 1 model call, answered by validate's own policy; the grader removed it",
    )
    const trained =
      'trains all model calls of a rollout with one reward, those of removed samples (critic) too: the rollout would fail.'
    expect(findings.slice(-4)).toStrictEqual([
      ...takenByAll.slice(0, 2),
      `warn Agent Lightning: ${trained}`,
      `warn POST /run: ${trained}`,
    ])
  })

  it('names an entrypoint without a workflow', async () => {
    workspaceOf('', { 'rollouts/one/main.js': 'export const nothing = 0' })
    expect((await validate('one')).findings.at(-1)).toMatch(/^fail entrypoint: .*AgentWorkflow/)
  })

  it('runs an agent loop of a module on a row of a dataset', async () => {
    workspaceOf('', { 'loop.ts': loopModule })
    const { code, findings } = await validate('-m', 'loop.ts:loop', '-d', 'data/words.jsonl')
    expect(code).toBe(1)
    expect(findings).toEqual([
      "ok entrypoint: exports the agent loop 'loop' with 0 tools",
      'ok model calls: 1 reached the policy',
      "ok sample: the conversation: 1 model call, answered by validate's own policy; 1 answer is trained",
      'fail reward: No reward was set for the conversation.',
      'ok this machine: can train it: osmosis train local',
      'ok trainers: Osmosis trains agent loops. Agent Lightning and POST /run take workflows.',
    ])
  })

  it('names a history that was rewritten', async () => {
    workspaceOf(
      `sample('main'); await say('main'); messages = [{ role: 'user', content: 'In short?' }]; await say('main')`,
    )
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings).toContainEqual(
      expect.stringMatching(/^warn history: .* \(sample main\): training splits/),
    )
  })

  it('has nothing against an agent that hands over to one with other instructions', async () => {
    workspaceOf(
      `sample('main'); messages.unshift({ role: 'system', content: 'A' }); await say('main')
       messages = [{ role: 'system', content: 'B' }, ...messages.slice(1)]; await say('main')`,
    )
    const { findings } = await validate('one')
    expect(findings.filter((finding) => finding.includes('history'))).toEqual([])
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
      'warn step rewards: The grader sets step rewards, which only osmosis train and the trace of POST /run use. Osmosis, Agent Lightning and the others train all model calls of a sample with the one reward of the sample.',
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

  it('looks for variables in what can be read', async () => {
    workspaceOf(`sample('main'); await say('main')`, {
      'rollouts/one/dump.js': '',
      'rollouts/one/tools.ts': 'process.env.SHOP_TOKEN',
    })
    // Longer than a text can be.
    truncateSync(here('rollouts/one/dump.js'), 3 * 1024 ** 3)
    expect((await validate()).findings).toContain(
      'warn variables: The code reads SHOP_TOKEN, which the config does not name: on the platform nothing sets them.',
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
    expect(findings).toContain(
      'fail config: No config in configs/eval/ or configs/training/ names the rollout two.',
    )
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

it(
  'a grader of groups is tried with a group, and said to which trainers it suits',
  { tags: 'nightly' },
  async () => {
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
      ]),
    )
  },
)

describe('a workspace that has only a training config', () => {
  const training = (keys: string): Record<string, string> => ({
    'configs/eval/one.toml': '',
    'configs/training/one.toml': evalConfig('one', `[training]\n${keys}\n`).replace(
      'main.ts',
      'main.js',
    ),
  })

  it('is validated with the rows of the training, and may have the keys of local trainings', async () => {
    workspaceOf(`sample('main'); await say('main')`, training('max_staleness = 1\nlr = 1e-5'))
    rmSync(here('configs/eval/one.toml'))
    const { code, findings } = await validate('one')
    expect(code).toBe(0)
    expect(findings).toContain('ok config: configs/training/one.toml')
    expect(findings).toContain('ok reward: 1 for main')
  })

  it('executes in the folder of the rollout, as the training will', async () => {
    useProcesses()
    workspaceOf(`throw new Error('in ' + process.cwd())`, training('lr = 1e-5'))
    rmSync(here('configs/eval/one.toml'))
    const { findings } = await validate('one')
    expect(findings.at(-1)).toMatch(/: in \S+\/rollouts\/one$/)
  })

  it('may name the columns of its rows, as an eval config may', async () => {
    const asked = (config: string): string =>
      config.replace('main.ts', 'main.js').replace('"words"', '"asked"')
    const columns = '[columns]\nprompt = "question"\nlabel = "expected"\n'
    const files = {
      'data/asked.jsonl': '{"question":"hi","expected":"a"}\n',
      'configs/eval/one.toml': asked(evalConfig('one', `[secrets]\nrequired = []\n${columns}`)),
      'configs/training/one.toml': asked(evalConfig('one', columns.replace('"question"', '"ask"'))),
    }
    workspaceOf(`sample('main'); await say('main')`, files)
    expect(await validate('one')).toMatchObject({ code: 0 })
    rmSync(here('configs/eval/one.toml'))
    const { code, findings } = await validate('one')
    expect(code).toBe(1)
    expect(findings.at(-1)).toContain(
      'columns.prompt: there is no column "ask". Found: "question", "expected".',
    )
  })

  it('is told once about a key that is none', async () => {
    workspaceOf('', training('eval_interval = 1'))
    rmSync(here('configs/eval/one.toml'))
    const { code, findings } = await validate('one')
    expect([code, findings]).toEqual([
      1,
      [
        'fail config: The platform would refuse configs/training/one.toml:\n- training.eval_interval: unknown key; did you mean eval_interval in [checkpoints]?',
      ],
    ])
  })
})
