import { describe, expect, it } from 'vitest'

import { callbacksOnly } from './callbacks-only.ts'
import { evaluate, inWorkspace, run, start } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const words = '-d data/words.jsonl'
const policy = '--policy policies/echo.ts'

/** Where an entrypoint is served that is up before the evaluation. */
async function served(env: Record<string, string> = {}): Promise<string> {
  const args = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--no-trajectories']
  const [, url = ''] = await start(args, env).printed(/Listening on (\S+)/)
  return url
}

describe('osmosis eval run --server', () => {
  it('runs the rollouts on a running server, whose grader rewards them', async () => {
    const url = await served()
    const { code, stderr, records, summary } = await evaluate(`--server ${url}`, words, policy)
    expect([code, records.length, summary['failed']]).toEqual([0, 4, 0])
    expect(records.map(({ reward }) => reward)).toEqual(await rewardsOfItsOwn())
    expect(stderr).toContain(`Rollout    ${url}\n`)
  })

  it('takes dataset and time limits of a config, without the entrypoint and its variables', async () => {
    const url = await served()
    const {
      code,
      records,
      run: ended,
    } = await evaluate(`configs/eval/secrets.toml --server ${url} --limit 2 --n 2`, policy)
    expect([code, records.length]).toEqual([0, 4])
    expect(ended).toMatchObject({ name: 'run' })
  })

  it('drives a server that knows callbacks only, and asks it for a lease once', async () => {
    const { url, orders } = await callbacksOnly(await served())
    const { code, records } = await evaluate(`--server ${url} --max-in-flight 1`, words, policy)
    expect([code, records.map(({ reward }) => reward)]).toEqual([0, await rewardsOfItsOwn()])
    const calledBack = orders.map((order) => order['completion_callback_url'] !== undefined)
    expect(calledBack).toEqual([false, true, true, true, true])
  })

  it('shows the key to the server, and says how when it is missing', async () => {
    const url = await served({ OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key' })
    const args = `eval run --server ${url} ${words} ${policy} --output ${temporaryFolder()}`
    const key = (value: string): Record<string, string> => ({
      OSMOSIS_ROLLOUT_SERVER_API_KEY: value,
    })
    const known = await run(args.split(' '), key('server-key'))
    expect(known.code).toBe(0)
    const guessed = await run(`${args} --fresh`.split(' '), key('guessed'))
    expect([guessed.code, guessed.stderr]).toEqual([
      1,
      expect.stringContaining('set OSMOSIS_ROLLOUT_SERVER_API_KEY'),
    ])
  })

  it('starts nothing when no server answers', async () => {
    const args = `eval run --server http://127.0.0.1:1 ${words} ${policy} --output ${temporaryFolder()}`
    const { code, stderr } = await run(args.split(' '))
    expect([code, stderr]).toEqual([1, expect.stringContaining('does not answer')])
  })
})

/** What the same entrypoint earns where the evaluation serves it. */
async function rewardsOfItsOwn(): Promise<unknown[]> {
  const { records } = await evaluate('-m rollouts/echo/main.ts', words, policy)
  return records.map(({ reward }) => reward)
}
