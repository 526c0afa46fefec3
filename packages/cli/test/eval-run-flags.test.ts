import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder, workspace } from './osmosis.ts'

inWorkspace()

const loop = '-m rollouts/agent-loops/adder.ts:agentLoop -d data/sums.jsonl'
const config = 'configs/eval/echo.toml'
const policy = '--policy policies/adding.ts'
const endpoint = '--base-url http://127.0.0.1:1/v1 --model m1'
const rewards = 'rollouts/agent-loops/rewards.ts'

/** What `osmosis eval run` says about flags that it refuses, before anything runs or is made. */
async function refusal(flags: string): Promise<string> {
  const output = temporaryFolder()
  const args = ['eval', 'run', ...flags.split(' '), '--quiet', '--output', output]
  const { code, stdout, stderr } = await run(args)
  const made = readdirSync(output).filter((name) => name !== '.locks')
  expect([code, stdout, made]).toEqual([2, '', []])
  return stderr.split('\n(osmosis eval run --help')[0]?.trimEnd() ?? ''
}

describe('osmosis eval run refuses', () => {
  it.each([
    ['--n 0', "'--n <attempts>' argument '0' is invalid. It must be a whole number, 1 or more."],
    [
      '--max-in-flight 0',
      "'--max-in-flight <rollouts>' argument '0' is invalid. It must be a whole number, 1 or more.",
    ],
    [
      '--fail-on-error 1.5',
      "'--fail-on-error <limit>' argument '1.5' is invalid. It must be a whole number of at least 1, a fraction below 1, or never.",
    ],
    [
      '--temperature high',
      "'--temperature <number>' argument 'high' is invalid. It must be a number.",
    ],
  ])('%s', async (flag, message) => {
    expect(await refusal(`${loop} ${policy} ${flag}`)).toBe(`error: option ${message}`)
  })

  it.each([
    [
      `--server http://127.0.0.1:1 ${policy}`,
      '--server without a config needs --dataset: the file with the rows.',
    ],
    [
      `${loop} --server http://127.0.0.1:1 ${policy}`,
      '--module only applies to code that the evaluation serves: omit it with --server.',
    ],
    [
      `${config} --server https://rollouts.example ${policy}`,
      'Rollouts on another machine cannot reach the policy of this evaluation, which listens on 127.0.0.1. Pass --policy-host with the name or address under which they reach this machine, or --policy-host 127.0.0.1 if the server runs here.',
    ],
    [
      `${config} --server http://127.0.0.1:1 --workers 2 ${policy}`,
      '--workers only applies to code that the evaluation serves: omit it with --server.',
    ],
    [
      `${config} ${loop}`,
      'Name what to evaluate: a config, an entrypoint as -m <file>[:<export>], or a running server as --server <url>.',
    ],
    ['-m rollouts/echo/main.ts', '--module needs --dataset: the file with the rows.'],
    [
      `${loop} ${policy} --rows 1 --limit 1`,
      '--rows selects the rows: omit --limit, --where and --sample.',
    ],
    [`${config} --rows 9`, '--rows 9 is out of range; valid rows are 0-3'],
    [
      `-m nowhere:agentLoop -d data/sums.jsonl ${policy}`,
      `The entrypoint file ${path.join(workspace, 'nowhere')} does not exist. Also tried with the extensions .ts, .js, .mts, .mjs, .cts, .cjs.`,
    ],
    [
      'configs/eval/secrets.toml',
      'The rollout needs secrets that have no value: SEARCH_API_KEY. Set them in the environment or in .env, or pass --secrets-file <file>.',
    ],
    [
      `${loop} --policy unknown`,
      'There is neither a policy nor a module named unknown. Policies in osmosis.toml: echo, adding.',
    ],
    [
      `${loop} ${policy} --details`,
      'Pass either --quiet or --details: a quiet command prints one line.',
    ],
    [
      `${loop} --models policies/adding.ts,policies/echo.ts --details`,
      '--details is for one run, and several are compared: print the details of each with osmosis eval show <run> --details.',
    ],
    [
      `${loop} ${policy} --secrets-file secrets.env`,
      '--secrets-file needs a config, which names the secrets.',
    ],
    [
      'configs/eval/secrets.toml --secrets-file /nowhere/env',
      "Cannot read the secrets from /nowhere/env: ENOENT: no such file or directory, open '/nowhere/env'",
    ],
    [
      `${config} --policy rollouts/echo/normalise.ts`,
      'The policy module rollouts/echo/normalise.ts should export one policy, e.g. what scriptedPolicy() returns; it exports none.',
    ],
    [
      `${config} --policy policies/echo.ts --base-url http://x/v1`,
      'Pass either --policy or --base-url: one policy answers all model calls.',
    ],
    [
      `${config} --model qwen`,
      '--model and --api-key-env belong to an endpoint: pass --base-url as well, or a model of a provider such as openai/gpt-5-mini.',
    ],
    [
      `${loop} ${policy} --model m1`,
      '--model and --api-key-env belong to an endpoint: leave them out with --policy.',
    ],
  ])('%s', async (flags, message) => {
    expect(await refusal(flags)).toBe(`error: ${message}`)
  })

  it('a dataset instead of that of the config, which is not there', async () => {
    for (const flag of ['-d', '--dataset-file']) {
      expect(await refusal(`${config} ${policy} ${flag} data/none.jsonl`)).toContain(
        'data/none.jsonl',
      )
    }
  })

  it('a key of the config that is misspelt, with the one that was meant', async () => {
    expect(await refusal('configs/eval/typo.toml')).toContain(
      '- evaluation.pass_treshold: unknown key; did you mean pass_threshold?',
    )
  })

  it('a key that is not set', async () => {
    expect(await refusal(`${loop} ${endpoint} --api-key-env NO_KEY`)).toBe(
      'error: The key of the policy endpoint is missing: the environment variable NO_KEY is not set. Set it, or write it in .env.',
    )
  })

  it('a key in the place of its variable, without showing it', async () => {
    const refused = await refusal(`${loop} ${endpoint} --api-key-env sk-secret`)
    expect(refused).toMatch(/^error: --api-key-env, or api_key_env .* has to be the name of an env/)
    expect(refused).not.toContain('secret')
  })

  it('the flags of the Python command for a second model, and names --models', async () => {
    for (const flag of ['--baseline-model m0', '--baseline-base-url http://127.0.0.1:1/v1']) {
      expect(await refusal(`${loop} ${policy} ${flag}`)).toContain('--models <name>,<name>')
    }
  })

  it.each([
    [
      `--eval-fn ${rewards}`,
      `--eval-fn must name a file and an export, e.g. rewards.ts:exact; got '${rewards}'.`,
    ],
    [
      `--eval-fn ${rewards}:exact --eval-fn ${rewards}:exact`,
      `--eval-fn names '${rewards}:exact' twice. Remove one of them.`,
    ],
    [
      `--eval-fn ${rewards}:exact --eval-fn ./${rewards}:exact`,
      `--eval-fn names './${rewards}:exact' twice, the first time as '${rewards}:exact'. Remove one of them.`,
    ],
    [
      `--eval-fn ${rewards}:inexact`,
      `${rewards} has no export 'inexact'. Its exports: classic, closeness, exact, hanging, limit, moody, notANumber.`,
    ],
    [
      `--eval-fn ${rewards}:limit`,
      `'${rewards}:limit' must be a function that returns a number, got number.`,
    ],
    [
      `--eval-fn ${rewards}:classic`,
      `'${rewards}:classic' takes 2 parameters. Wrap it in defineReward() to be called with (solutionStr, groundTruth, extraInfo), or let it take one object: { messages, solutionStr, groundTruth, metadata, reward }.`,
    ],
    [
      '--eval-fn nowhere.ts:exact',
      `The eval function file ${path.join(workspace, 'nowhere.ts')} does not exist.`,
    ],
  ])('%s', async (flags, message) => {
    expect(await refusal(`${loop} ${policy} ${flags}`)).toBe(`error: ${message}`)
  })

  it('checkpoints of a training whose learner.json is damaged', async () => {
    const training = temporaryFolder()
    const file = path.join(training, 'learner.json')
    writeFileSync(file, '{"model":')
    const args = ['eval', 'run', ...loop.split(' '), '--checkpoints', training]
    const { code, stderr } = await run(args)
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`error: Cannot read ${file}, which`),
    ])
    expect(stderr).toContain('Continue the training with osmosis train local')
    expect(stderr).not.toContain('    at ')
  })

  it('checkpoints of a training that has only unfinished and damaged ones', async () => {
    const training = temporaryFolder()
    writeFileSync(path.join(training, 'learner.json'), '{"model":"m"}')
    const inside = path.join(training, 'checkpoints')
    for (const name of ['step-0002.1a2b3c4d.partial', 'step-0003.damaged', 'step-0004.previous']) {
      mkdirSync(path.join(inside, name), { recursive: true })
    }
    const { code, stderr } = await run([
      'eval',
      'run',
      ...loop.split(' '),
      '--checkpoints',
      training,
    ])
    expect([code, stderr]).toEqual([2, `error: There are no checkpoints in ${inside} yet.\n`])
  })

  it('results that could not be written', async () => {
    const { code, stderr } = await run([
      'eval',
      'run',
      ...`${loop} ${policy} --output data/sums.jsonl`.split(' '),
    ])
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^error: Cannot create the folder .*sums.jsonl: E/m),
    ])
    expect(stderr).not.toContain('    at ')
  })
})

describe('osmosis eval run refuses, once it has seen what the entrypoint exports,', () => {
  it('flags of agent loops for a workflow', async () => {
    expect(await refusal(`${config} --max-turns 3`)).toBe(
      'error: --max-turns is for agent loops, and echo exports a workflow.',
    )
  })

  it('a grader budget for an agent loop', async () => {
    expect(await refusal('configs/eval/adder-with-grader.toml --policy adding')).toBe(
      'error: grader_timeout_s is for workflows, and agent-loops exports an agent loop.',
    )
  })

  it('an agent loop that cannot serve rollouts', async () => {
    expect(
      await refusal(`-m rollouts/agent-loops/faulty.ts:wrong -d data/sums.jsonl ${policy}`),
    ).toContain('[GET_TOOLS_RETURNS_NONE]')
  })

  it('an entrypoint that cannot be loaded', async () => {
    const message = await refusal('configs/eval/throws.toml')
    expect(message).toMatch(/^error: The rollout server could not start\. Cannot load /)
    expect(message).toContain('this module cannot be loaded')
  })
})
