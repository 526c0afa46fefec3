import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

import { describe, expect, it, onTestFinished } from 'vitest'

import { osmosis, startOsmosis, temporaryFolder } from './osmosis.ts'

interface ResultFiles {
  records: Record<string, unknown>[]
  metrics: { eval_run: Record<string, unknown>; summary: Record<string, unknown> }
}

function readResults(folder: string): ResultFiles {
  const text = (name: string): string => readFileSync(path.join(folder, name), 'utf8')
  return {
    records: text('index.jsonl')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
    metrics: JSON.parse(text('metrics.json')) as ResultFiles['metrics'],
  }
}

describe('osmosis eval run', () => {
  it('runs every row as often as it should and reports what the files say', async () => {
    const output = temporaryFolder()
    const { code, stdout, stderr } = await osmosis([
      'eval',
      'run',
      'configs/eval/echo.toml',
      '--output',
      output,
      '--name',
      'first',
    ])
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('8/8 rollouts  75 % passed'),
    })
    expect(stdout).toMatch(/Pass rate +75\.0 % {2}\(6 of 8 /)
    expect(stdout).toContain(path.join(output, 'first'))

    const { records, metrics } = readResults(path.join(output, 'first'))
    expect(
      records.map(({ row_index, run_index, status, reward }) => [
        row_index,
        run_index,
        status,
        reward,
      ]),
    ).toEqual([
      [0, 0, 'success', 1],
      [0, 1, 'success', 1],
      [1, 0, 'success', 1],
      [1, 1, 'success', 1],
      [2, 0, 'success', 0],
      [2, 1, 'success', 0],
      [3, 0, 'success', 1],
      [3, 1, 'success', 1],
    ])
    expect(metrics.eval_run).toMatchObject({
      status: 'finished',
      name: 'first',
      rollout_name: 'echo',
    })
    expect(metrics.summary).toMatchObject({
      total_samples: 8,
      passed: 6,
      pass_rate: 0.75,
      failed: 0,
    })
    expect(readdirSync(path.join(output, 'first')).toSorted()).toEqual([
      'index.jsonl',
      'logs.txt',
      'metrics.json',
    ])
  })

  it('never overwrites the results of another run', async () => {
    const args = [
      'eval',
      'run',
      'configs/eval/echo.toml',
      '--limit',
      '1',
      '--output',
      temporaryFolder(),
      '--name',
      'same',
    ]
    expect((await osmosis(args)).code).toBe(0)
    const again = await osmosis(args)
    expect(again.code).toBe(1)
    expect(again.stderr).toMatch(/^error: The run folder .*same exists already/)
  })

  it('takes the rows and the policy that the flags say', async () => {
    const output = temporaryFolder()
    const { code } = await osmosis([
      'eval',
      'run',
      'configs/eval/no-policy.toml',
      '--rows',
      '2-3',
      '--policy',
      'policies/echo.ts',
      '--output',
      output,
      '--name',
      'r',
    ])
    expect(code).toBe(0)
    expect(readResults(path.join(output, 'r')).records.map(({ reward }) => reward)).toEqual([0, 1])
  })

  it('lets any OpenAI-compatible endpoint answer', async () => {
    const seen: unknown[] = []
    const endpoint = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      request.on('end', () => {
        const { model, messages } = JSON.parse(body) as {
          model: string
          messages: { content: string }[]
        }
        seen.push([request.url, request.headers.authorization, model])
        response.setHeader('content-type', 'application/json')
        response.end(
          JSON.stringify({
            id: 'c',
            choices: [
              {
                index: 0,
                message: { role: 'assistant', content: messages[0]?.content },
                finish_reason: 'stop',
              },
            ],
          }),
        )
      })
    })
    await new Promise<void>((resolve) => {
      endpoint.listen(0, '127.0.0.1', resolve)
    })
    onTestFinished(() => {
      endpoint.closeAllConnections()
      endpoint.close()
    })
    const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/v1`
    const output = temporaryFolder()
    const { code, stdout } = await osmosis(
      [
        'eval',
        'run',
        'configs/eval/no-policy.toml',
        '--limit',
        '1',
        '--base-url',
        url,
        '--model',
        'qwen',
        '--api-key-env',
        'MY_KEY',
        '--output',
        output,
      ],
      { MY_KEY: 'k' },
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/Policy +qwen/)
    expect(seen).toEqual([['/v1/chat/completions', 'Bearer k', 'qwen']])
  })

  it('shows why rollouts failed when the policy endpoint refuses the key', async () => {
    const endpoint = createServer((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' })
      response.end('{"error":{"message":"invalid api key"}}')
    })
    await new Promise<void>((resolve) => {
      endpoint.listen(0, '127.0.0.1', resolve)
    })
    onTestFinished(() => {
      endpoint.closeAllConnections()
      endpoint.close()
    })
    const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/v1`
    const output = temporaryFolder()
    const { code, stdout } = await osmosis([
      'eval',
      'run',
      'configs/eval/no-policy.toml',
      '--base-url',
      url,
      '--output',
      output,
      '--name',
      'r',
    ])
    expect(code).toBe(0)
    expect(stdout).toMatch(/4 × http_error/)
    const { records } = readResults(path.join(output, 'r'))
    expect(records[0]).toMatchObject({
      status: 'failed',
      error_type: 'http_error',
      error_message: expect.stringMatching(/answered 401: invalid api key/),
    })
    expect(records[0]).not.toHaveProperty('reward')
  })

  it('ends with 1 and the last words of the server when that dies', async () => {
    const output = temporaryFolder()
    const { code, stdout, stderr } = await osmosis([
      'eval',
      'run',
      'configs/eval/exits.toml',
      '--output',
      output,
      '--name',
      'r',
    ])
    expect(code).toBe(1)
    expect(stdout).toContain('incomplete')
    expect(stderr).toMatch(
      /The rollout server ended with code 7\. It printed last:\n.*about to exit/s,
    )
    expect(readFileSync(path.join(output, 'r', 'logs.txt'), 'utf8')).toContain('about to exit')
  })

  it('says at once when the entrypoint cannot be loaded', async () => {
    const { code, stderr } = await osmosis([
      'eval',
      'run',
      'configs/eval/throws.toml',
      '--output',
      temporaryFolder(),
    ])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^error: The rollout server ended with code 1 before it listened:\n/)
    expect(stderr).toContain('this module cannot be loaded')
  })

  it('stops on Ctrl-C: cancels what runs, keeps what is done, leaves no server behind', async () => {
    const output = temporaryFolder()
    const command = startOsmosis([
      'eval',
      'run',
      'configs/eval/echo.toml',
      '--policy',
      'policies/silent.ts',
      '--output',
      output,
      '--name',
      'r',
    ])
    const logs = path.join(output, 'r', 'logs.txt')
    const log = (): string => (existsSync(logs) ? readFileSync(logs, 'utf8') : '')
    await expect.poll(log, { timeout: 10_000 }).toContain('Listening on')
    const [, url = ''] = /Listening on (\S+)/.exec(log()) ?? []
    await expect
      .poll(
        async () =>
          ((await (await fetch(`${url}/health`)).json()) as { concurrency: { running: number } })
            .concurrency.running,
        { timeout: 10_000 },
      )
      .toBeGreaterThan(0)
    command.child.kill('SIGINT')

    const { code, stdout, stderr } = await command.finished
    expect(code).toBe(130)
    expect(stderr).toContain('Stopping: cancelling what runs.')
    expect(stdout).toMatch(/incomplete/)
    expect(readResults(path.join(output, 'r')).metrics.eval_run).toMatchObject({
      status: 'incomplete',
      incomplete_reason: 'interrupted',
    })
    await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
  })
})

it('osmosis eval run leaves no server behind when it is killed', async () => {
  const output = temporaryFolder()
  const flags = ['--policy', 'policies/silent.ts', '--output', output, '--name', 'r']
  const command = startOsmosis(['eval', 'run', 'configs/eval/echo.toml', ...flags])
  const logs = path.join(output, 'r', 'logs.txt')
  const log = (): string => (existsSync(logs) ? readFileSync(logs, 'utf8') : '')
  await expect.poll(log, { timeout: 10_000 }).toContain('rollout accepted')
  const [, url = ''] = /Listening on (\S+)/.exec(log()) ?? []
  command.child.kill('SIGKILL')
  const isUp = (): Promise<boolean> =>
    fetch(`${url}/health`).then(
      () => true,
      () => false,
    )
  await expect.poll(isUp, { timeout: 5_000 }).toBe(false)
})

describe('osmosis eval run refuses', () => {
  it('a key that is misspelt, with the one that was meant', async () => {
    const { code, stderr } = await osmosis(['eval', 'run', 'configs/eval/typo.toml'])
    expect(code).toBe(1)
    expect(stderr).toContain('evaluation.pass_treshold')
    expect(stderr).toContain('did you mean pass_threshold?')
  })

  it('a config that names nobody to answer, and says how to name one', async () => {
    const { code, stderr } = await osmosis(['eval', 'run', 'configs/eval/no-policy.toml'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^error: Nobody is named to answer the model calls\. Pass --base-url/)
  })

  it('secrets that are not set', async () => {
    const { code, stderr } = await osmosis(['eval', 'run', 'configs/eval/secrets.toml'])
    expect(code).toBe(1)
    expect(stderr).toBe(
      'error: The rollout needs secrets that are not set in the environment: SEARCH_API_KEY.\n',
    )
  })

  it('a policy module that exports none', async () => {
    const { stderr } = await osmosis([
      'eval',
      'run',
      'configs/eval/echo.toml',
      '--policy',
      'rollouts/echo/normalise.ts',
    ])
    expect(stderr).toBe(
      'error: The policy module rollouts/echo/normalise.ts should export one policy, e.g. what scriptedPolicy() returns; it exports none.\n',
    )
  })

  it.each([
    [
      ['--policy', 'policies/echo.ts', '--base-url', 'http://x/v1'],
      /either --policy or --base-url/,
    ],
    [['--model', 'qwen'], /pass --base-url as well/],
    [['--base-url', 'http://127.0.0.1:9/v1', '--api-key-env', 'NOT_SET'], /NOT_SET is not set/],
    [['--limit', 'few'], /must be a whole number/],
    [['--rows', '9'], /out of range/],
  ])('the flags %j', async (flags, message) => {
    const { code, stderr } = await osmosis(['eval', 'run', 'configs/eval/echo.toml', ...flags])
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
  })
})
