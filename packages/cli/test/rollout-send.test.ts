import { readFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { callbacksOnly } from './callbacks-only.ts'
import { inWorkspace, run, start } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'
const words = ['-d', 'data/words.jsonl']
const sent = ['0', ...words, '--policy', 'policies/calling.ts']
const calling = ['rollouts/calling/main.ts', ...sent]

/** Where an entrypoint is served. */
async function served(entrypoint: string): Promise<string> {
  const serving = start(['serve', entrypoint, '--port', '0', '--no-trajectories'])
  const [, url = ''] = await serving.printed(/Listening on (\S+)/)
  return url
}

/** What a run says about its rollout, without what differs each time. */
function steady(text: string): string {
  return text
    .replaceAll(/127\.0\.0\.1:\d+/g, '<server>')
    .replaceAll(/send-(\d+)-\w{8}/g, 'send-$1-<id>')
}

describe('osmosis rollout send', () => {
  it('serves an entrypoint, sends it a row, and shows the conversation while it runs', async () => {
    const { code, stdout, stderr } = await run(['rollout', 'send', ...calling])
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: [
        '[user] one',
        '[assistant] calls look_up({"q": "one"})',
        '[tool look_up] 42',
        '[assistant] It is 42.',
        'reward: 0.5',
        '',
      ].join('\n'),
    })
    expect(steady(stderr)).toMatch(
      /^Sending row 0 of data\/words.jsonl to http:\/\/<server> as send-0-<id>\nstatus: queued\n(status: (running|grading)\n)*status: success\n$/,
    )
  })

  it('prints one JSON object when asked to', async () => {
    const url = await served('rollouts/calling/main.ts')
    const { code, stdout } = await run(['rollout', 'send', url, ...sent, '--json'])
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      {
        rollout_id: expect.stringMatching(/^send-0-/) as string,
        row_index: 0,
        status: 'success',
        reward: 0.5,
        err_message: null,
        err_category: null,
        messages: expect.arrayContaining([{ role: 'user', content: 'one' }]) as unknown[],
        metrics: {},
        policy_calls: 2,
        prompt_tokens: expect.any(Number) as number,
        completion_tokens: expect.any(Number) as number,
      },
    ])
  })

  it('takes dataset, limits and the policy of its workspace from an eval config', async () => {
    const config = ['--config', 'configs/eval/echo.toml']
    const { code, stdout } = await run(['rollout', 'send', await served(echo), '2', ...config])
    expect([code, stdout]).toEqual([0, '[user] three?\n[assistant] I do not know\nreward: 0\n'])
  })

  it('sends to a server that runs, with its key', async () => {
    const serving = start(['serve', echo, '--port', '0', '--no-trajectories'], {
      OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key',
    })
    const [, url = ''] = await serving.printed(/Listening on (\S+)/)
    const args = ['rollout', 'send', url, '1', ...words]
    const key = ['--server-api-key-env', 'SERVER_KEY']
    const known = await run([...args, ...key], { SERVER_KEY: 'server-key' })
    expect([known.code, known.stdout]).toEqual([0, '[user] two\n[assistant] TWO\nreward: 1\n'])
    const refused = await run([...args, ...key], { SERVER_KEY: 'guessed' })
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("Pass the rollout server's key as apiKey."),
    ])
  })

  it('a server that knows callbacks only gets the rollout with callbacks', async () => {
    const { url, orders } = await callbacksOnly(await served(echo))
    const { code, stdout, stderr } = await run(['rollout', 'send', url, '1', ...words])
    expect([code, stdout]).toEqual([0, '[user] two\n[assistant] TWO\nreward: 1\n'])
    expect(stderr).toMatch(/\nstatus: success\n$/)
    expect(orders).toHaveLength(2)
  })

  it('says why a rollout failed, after what was said until then', async () => {
    const log = path.join(temporaryFolder(), 'server.log')
    const args = ['rollouts/calling/main.ts', '1', ...words, '--policy', 'policies/calling.ts']
    const { code, stdout, stderr } = await run(['rollout', 'send', ...args, '--server-log', log])
    expect([code, stdout]).toEqual([
      1,
      '[user] two\n[assistant] calls look_up({"q": "one"})\nreward: none\n',
    ])
    expect(stderr).toContain(
      'status: failure\nerror: thrown by run() at rollouts/calling/main.ts:22: the tool is broken (agent_error)\n',
    )
    expect(readFileSync(log, 'utf8')).toContain('the tool is broken')
  })

  it('names the samples of concurrent conversations', async () => {
    const args = ['3', ...words, '--policy', 'policies/calling.ts']
    const url = await served('rollouts/calling/main.ts')
    const { code, stdout, stderr } = await run(['rollout', 'send', url, ...args])
    expect([code, stdout.split('\n').slice(-5)]).toEqual([
      1,
      ['--- critic', '[tool] Right?', '[assistant] It is 42.', 'reward: none', ''],
    ])
    expect(stderr).toContain('error: The rollout has 2 samples (main, critic)')
  })

  it('shows what the policy returned instead of an answer, without its key', async () => {
    const { url } = await endpoint((_request, response) =>
      refuse(response, 401, 'no such key: secret-key'),
    )
    const flags = ['--base-url', url, '--model', 'm', '--api-key-env', 'POLICY_KEY']
    const args = ['rollout', 'send', await served(echo), '0', ...words, ...flags]
    const { code, stdout, stderr } = await run(args, { POLICY_KEY: 'secret-key' })
    expect([code, stdout]).toEqual([1, '[user] one\nreward: none\n'])
    expect(stderr).toContain('warning: The policy gave no answer (401): ')
    expect(stderr + stdout).not.toContain('secret-key')
  })

  it('says that the process of the entrypoint has ended, and what it printed', async () => {
    const args = ['rollout', 'send', 'rollouts/broken/exits.ts', '0', ...words]
    const { code, stdout, stderr } = await run(args)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/error: The rollout server ended with code 7\.[^]*about to exit/)
  })

  it('cancels the rollout after Ctrl-C', async () => {
    const args = ['0', ...words, '--policy', 'policies/silent.ts']
    const sending = start(['rollout', 'send', await served(echo), ...args])
    await sending.printed(/status: running/)
    const { code, stdout, stderr } = await sending.end()
    expect([code, stdout]).toEqual([130, '[user] one\nreward: none\n'])
    expect(stderr).toContain('status: cancelled\n')
  })

  it.each([
    [[echo], 'Name the source of the row: --dataset <file>, or --config <eval config>.'],
    [[echo, '9', ...words], 'data/words.jsonl has no row 9: its rows are 0 to 3.'],
    [['rollouts/agent-loops/adder.ts', ...words], 'Try the loop with osmosis test.'],
    [[echo, '0', ...words, '--policy-host', '1.2.3.4'], '--policy-host must be an address of this'],
    [[echo, '0', ...words, '--server-api-key-env', 'KEY'], 'an entrypoint is served here.'],
    [['http://127.0.0.1:1', ...words, '--server-log', 'x'], 'a server at a URL keeps its own log.'],
    [
      ['http://127.0.0.1:1', ...words, '--server-api-key-env', 'NOT_SET'],
      'the environment variable NOT_SET is not set.',
    ],
    [[echo, '0', ...words, '--secrets-file', 'x'], '--secrets-file needs a config'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await run(['rollout', 'send', ...args])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(message)
  })

  it('says that no server answers', async () => {
    const { code, stderr } = await run(['rollout', 'send', 'http://127.0.0.1:1', ...words])
    expect([code, stderr]).toEqual([1, expect.stringContaining('Is the rollout server running?')])
  })
})
