import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { osmosis, temporaryFolder } from './osmosis.ts'

const loop = '-m rollouts/agent-loops/adder.ts:agentLoop -d data/sums.jsonl'
const policy = '--policy policies/adding.ts'
const endpoint = '--base-url http://127.0.0.1:1/v1 --model m1'
const rewards = 'rollouts/agent-loops/rewards.ts'

/** What `osmosis eval loop` says about flags that it refuses. */
async function refusal(flags: string): Promise<string> {
  const { code, stdout, stderr } = await osmosis(['eval', 'loop', ...flags.split(' ')])
  expect([code, stdout]).toEqual([1, ''])
  return stderr.split('\n(osmosis --help')[0]?.trimEnd() ?? ''
}

describe('osmosis eval loop refuses', () => {
  it.each([
    ['--n 0', "'--n <runs>' argument '0' is invalid. It must be a whole number, 1 or more."],
    [
      '--batch-size 0',
      "'--batch-size <runs>' argument '0' is invalid. It must be a whole number, 1 or more.",
    ],
    [
      '--max-turns 0',
      "'--max-turns <turns>' argument '0' is invalid. It must be a whole number, 1 or more.",
    ],
    [
      '--limit 0',
      "'--limit <rows>' argument '0' is invalid. It must be a whole number, 1 or more.",
    ],
    [
      '--offset -1',
      "'--offset <rows>' argument '-1' is invalid. It must be a whole number, 0 or more.",
    ],
    ['--n 1.5', "'--n <runs>' argument '1.5' is invalid. It must be a whole number, 1 or more."],
    [
      '--pass-threshold high',
      "'--pass-threshold <score>' argument 'high' is invalid. It must be a number.",
    ],
    [
      '--baseline-base-url here',
      "'--baseline-base-url <url>' argument 'here' is invalid. It must be an http or https URL, e.g. http://127.0.0.1:8000/v1.",
    ],
  ])('%s', async (flag, message) => {
    expect(await refusal(`${loop} ${policy} ${flag}`)).toBe(`error: option ${message}`)
  })

  it.each([
    [
      `${policy} --baseline-base-url http://127.0.0.1:1`,
      '--baseline-base-url needs --baseline-model.',
    ],
    [
      `${policy} --model m1`,
      '--model and --api-key-env belong to an endpoint: leave them out with --policy.',
    ],
    [`${policy} --baseline-api-key-env KEY`, '--baseline-api-key-env needs --baseline-model.'],
    [
      `${policy} --baseline-model m0`,
      '--baseline-model belongs to an endpoint: pass --baseline-base-url as well.',
    ],
    [
      `${endpoint} --baseline-model m0 --baseline-policy policies/echo.ts`,
      'Pass either --baseline-policy or --baseline-model: there is one baseline.',
    ],
    [
      `${endpoint} --baseline-model m1`,
      'The baseline m1 is the model under evaluation itself: name another one.',
    ],
    [
      `${endpoint} --baseline-model m1 --baseline-base-url HTTP://127.0.0.1:01/v1//`,
      'The baseline m1 is the model under evaluation itself: name another one.',
    ],
    [
      `${policy} --baseline-policy ./policies/adding.ts`,
      'The baseline ./policies/adding.ts is the model under evaluation itself: name another one.',
    ],
    [
      `${endpoint} --baseline-model m0 --baseline-api-key-env NO_KEY`,
      'The key of the policy endpoint is missing: the environment variable NO_KEY is not set.',
    ],
  ])('%s', async (flags, message) => {
    expect(await refusal(`${loop} ${flags}`)).toBe(`error: ${message}`)
  })

  it.each([
    [
      `--eval-fn ${rewards}`,
      `--eval-fn must name a file and an export, as rewards.ts:exact does; got '${rewards}'.`,
    ],
    [
      `--eval-fn ${rewards}:exact --eval-fn ${rewards}:exact`,
      `--eval-fn names '${rewards}:exact' twice. Leave one out.`,
    ],
    [
      `--eval-fn ${rewards}:exact --eval-fn ./${rewards}:exact`,
      `--eval-fn names './${rewards}:exact' twice, the first time as '${rewards}:exact'. Leave one out.`,
    ],
    [
      `--eval-fn ${rewards}:inexact`,
      `${rewards} has no export 'inexact'. Its exports: classic, closeness, exact, hanging, limit, moody, notANumber, rowSeen, sees, spoiling.`,
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
      `There is no eval function file ${path.resolve(import.meta.dirname, 'workspace/nowhere.ts')}.`,
    ],
  ])('%s', async (flags, message) => {
    expect(await refusal(`${loop} ${policy} ${flags}`)).toBe(`error: ${message}`)
  })

  it('results that could not be written, before anything runs', async () => {
    const folder = temporaryFolder()
    expect(await refusal(`${loop} ${policy} -o ${folder}`)).toBe(
      `error: --output must name a file, e.g. ${path.join(folder, 'results.json')}; ${folder} is a folder.`,
    )
    expect(await refusal(`${loop} ${policy} -o data/sums.jsonl/results.json`)).toMatch(
      /^error: --output cannot be written to data\/sums\.jsonl\/results\.json: /,
    )
    expect(await refusal(`${loop} ${policy} --log data/sums.jsonl`)).toMatch(
      /^error: --log cannot be written to data\/sums\.jsonl: EEXIST/,
    )
  })

  it('a loop that cannot serve rollouts, and rows that are none', async () => {
    expect(
      await refusal(`-m rollouts/agent-loops/faulty.ts:wrong -d data/sums.jsonl ${policy}`),
    ).toContain('[GET_TOOLS_RETURNS_NONE]')
    expect(await refusal(`${loop} ${policy} --offset 4`)).toBe(
      'error: No rows to run: data/sums.jsonl has 4, and --offset 4 leaves none of them.',
    )
  })
})
