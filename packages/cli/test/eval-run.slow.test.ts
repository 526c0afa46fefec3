import { readdirSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { evaluate, inWorkspace, run } from './in-process.ts'
import { endpoint, refuse, say } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const rewards = 'rollouts/agent-loops/rewards.ts'

describe('osmosis eval run, a workflow', () => {
  it('needs no config: an entrypoint and a dataset do', async () => {
    const { code, stdout, records } = await evaluate(
      '-m rollouts/echo/main -d data/words.jsonl --policy policies/echo.ts',
      '--rows 1-2 --n 2 --details',
    )
    expect([
      code,
      records.map(({ source_row_index, reward }) => [source_row_index, reward]),
    ]).toEqual([
      0,
      [
        [1, 1],
        [1, 1],
        [2, 0],
        [2, 0],
      ],
    ])
    expect(stdout).toMatch(/^rollouts\/echo\/main · /m)
  })

  it('needs no reward where eval functions score: a grader that fails is a failure without them', async () => {
    const broken = '-m rollouts/echo/broken-grader.ts -d data/words.jsonl'
    const flags = '--policy policies/echo.ts --limit 1'
    const scored = await evaluate(broken, flags, `--eval-fn ${rewards}:exact`)
    expect([scored.code, scored.records[0]]).toMatchObject([
      0,
      { status: 'success', scores: { [`${rewards}:exact`]: 0 } },
    ])
    expect(scored.records[0]).not.toHaveProperty('reward')
    const unscored = await evaluate(broken, flags)
    expect([unscored.code, unscored.records[0]]).toMatchObject([
      1,
      {
        status: 'failed',
        error_message: expect.stringMatching(/^thrown by .*: the judge is out$/),
      },
    ])
    expect(unscored.stderr).toContain('error: No rollout of policies/echo.ts got a reward.\n')
  })

  it('lets any OpenAI-compatible endpoint answer', async () => {
    const upstream = await endpoint((_, response) => say(response, 'one'))
    const output = temporaryFolder()
    const words = '-m rollouts/echo/main.ts -d data/words.jsonl --limit 1'
    const address = `--base-url ${upstream.url}/v1 --model qwen --api-key-env MY_KEY`
    const args = `eval run ${words} ${address} --output ${output} --details`.split(' ')
    const { code, stdout } = await run(args, { MY_KEY: 'k' })
    expect(code).toBe(0)
    // Of an entrypoint called main, the folder names the run.
    expect(readdirSync(output)).toEqual(['.locks', expect.stringMatching(/^echo-\d+$/)])
    expect(stdout).toMatch(/ · qwen · /)
    expect(
      upstream.received.map(({ path: asked, headers, body }) => [
        asked,
        headers.authorization,
        body['model'],
      ]),
    ).toEqual([['/v1/chat/completions', 'Bearer k', 'qwen']])
  })

  it('stops when the policy endpoint refuses the key, and says why', async () => {
    const upstream = await endpoint((_, response) => refuse(response, 401, 'wrong key'))
    const {
      code,
      stderr,
      records,
      run: facts,
    } = await evaluate(
      'configs/eval/echo-once.toml --max-in-flight 1',
      `--base-url ${upstream.url}/v1`,
    )
    const reason =
      'The policy answered 401: {"error":{"message":"wrong key"}}\nNo key was sent: name the variable that holds it with --api-key-env, or api_key_env in osmosis.toml.'
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`error: The run is incomplete. ${reason}\n`),
    ])
    expect(facts).toMatchObject({ status: 'incomplete', incomplete_reason: reason })
    expect(records).toEqual([])
  })
})
