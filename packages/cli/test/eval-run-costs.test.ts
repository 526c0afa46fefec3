import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it } from 'vitest'

import { here, run, workIn } from './in-process.ts'
import { endpoint, refuse, say } from './model-endpoint.ts'
import type { Finished } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

const prices = `[prices.qwen]
input = 100_000
output = 250_000
`

function inWorkspaceWith(files: Readonly<Record<string, string>>): void {
  const root = temporaryWorkspace({ 'configs/eval/echo.toml': evalConfig('echo'), ...files })
  workIn(root)
}

function evalRun(url: string, words = ''): Promise<Finished> {
  const policy = ['--base-url', `${url}/v1`, '--model', 'qwen', '--api-key-env', 'QWEN_KEY']
  const place = ['--name', 'costs', '--output', 'out', '--max-in-flight', '1']
  const more = words === '' ? [] : words.split(' ')
  const args = ['eval', 'run', 'configs/eval/echo.toml', ...policy, ...place, ...more]
  return run(args, { QWEN_KEY: 'qwen-key' })
}

function storedResults(): {
  costs: unknown[]
  errors: unknown[]
  metrics: Record<string, unknown>
} {
  const read = (file: string): string => readFileSync(path.join(here('out/costs'), file), 'utf8')
  const lines = read('events.jsonl').split('\n').slice(0, -1)
  const events = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  return {
    costs: events.map((event) => event['cost_usd']),
    errors: events.flatMap((event) => event['error_message'] ?? []),
    metrics: JSON.parse(read('metrics.json')) as Record<string, unknown>,
  }
}

describe('osmosis eval run with prices', () => {
  beforeEach(() => inWorkspaceWith({ 'osmosis.toml': prices }))

  it('starts no more rollouts at --max-cost, and continues with more', async () => {
    const upstream = await endpoint((_, response) => say(response, 'one'))
    const halted = await evalRun(upstream.url, '--limit 1 --n 4 --max-cost 1.5')
    expect([halted.code, halted.stderr + halted.stdout]).toEqual([
      1,
      expect.stringContaining(
        'The run reached its limit of $1.50: at $2.00 no more rollouts were started.',
      ),
    ])
    expect(storedResults().costs).toEqual([1, 1])
    expect(upstream.received).toHaveLength(2)
    const { code, stdout } = await evalRun(upstream.url, '--limit 1 --n 4 --max-cost 10')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^Cost, time +\$4\.00 in all; /m)])
    expect(storedResults()).toMatchObject({ costs: [1, 1, 1, 1], metrics: { total_cost_usd: 4 } })
  })
})

it('osmosis eval run needs prices for a budget', async () => {
  inWorkspaceWith({})
  const upstream = await endpoint((_, response) => say(response, 'one'))
  const flags = '--limit 1 --n 4 --max-cost 5'
  const { code, stdout, stderr } = await evalRun(upstream.url, flags)
  expect(upstream.received).toHaveLength(1)
  expect([code, stderr + stdout]).toEqual([1, expect.stringContaining('[prices."<model>"]')])
  expect(storedResults()).toMatchObject({ costs: [null], metrics: { total_cost_usd: null } })
})

describe('osmosis eval run asks a model once before it spends', () => {
  beforeEach(() => inWorkspaceWith({}))

  it('and ends with what to set when it refuses, with nothing left behind', async () => {
    const upstream = await endpoint((_, response) => refuse(response, 401, 'Incorrect key'), {
      preflight: true,
    })
    const { code, stderr } = await evalRun(upstream.url)
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      1,
      `error: qwen at ${upstream.url}/v1 refused a first call of 16 tokens with 401: Incorrect key. Check the key in the environment variable QWEN_KEY.\n`,
    ])
    expect(upstream.received.map(({ body }) => [body['model'], body['max_tokens']])).toEqual([
      ['qwen', 16],
    ])
    expect(readdirSync(here('out'))).not.toContain('costs')
  })

  it('and says what came when that is a page', async () => {
    const upstream = await endpoint(
      (_, response) => {
        response.setHeader('content-type', 'text/html')
        response.end('<html><title>Welcome</title></html>')
      },
      { preflight: true },
    )
    const { code, stderr } = await evalRun(upstream.url)
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      1,
      `error: The policy answered 200 with text/html, which is not a chat completion: Welcome (${upstream.url}/v1). Check the base URL.\n`,
    ])
  })

  it('warns of trouble that may pass', async () => {
    let calls = 0
    const upstream = await endpoint(
      (_, response) => {
        calls += 1
        if (calls === 1) refuse(response, 503, 'warming up')
        else say(response, 'one')
      },
      { preflight: true },
    )
    const { code, stderr } = await evalRun(upstream.url, '--limit 1')
    expect(code).toBe(0)
    expect(stderr).toContain(
      `warning: qwen at ${upstream.url}/v1 refused a first call of 16 tokens with 503: warming up.`,
    )
    expect(calls).toBe(2)
  })
})

it('osmosis eval run stops an agent that always throws, and says how to continue', async () => {
  const throwing = `import { EchoWorkflow } from '../echo/main.ts'
export { EchoGrader } from '../echo/main.ts'
export class ThrowingWorkflow extends EchoWorkflow {
  override async run() {
    throw new Error('no orders')
  }
}
`
  inWorkspaceWith({
    'rollouts/throwing/main.ts': throwing,
    'configs/eval/echo.toml': evalConfig('throwing'),
  })
  const upstream = await endpoint((_, response) => say(response, 'one'))
  const { code, stderr } = await evalRun(upstream.url, '--n 6')
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /error: The run is incomplete\. The first 2\d rollouts all failed the same way, with agent_error: .*no orders\. Fix that and start again with --retry-failed, or pass --fail-on-error never to continue\.\n$/,
    ),
  ])
})

it('osmosis eval run refuses a run without a grader before it spends, unless --no-grader is passed', async () => {
  inWorkspaceWith({
    'rollouts/ungraded/main.ts': `export { EchoWorkflow } from '../echo/main.ts'`,
    'configs/eval/echo.toml': evalConfig('ungraded'),
  })
  const upstream = await endpoint((_, response) => say(response, 'one'))
  const refused = await evalRun(upstream.url)
  expect([refused.code, refused.stderr, readdirSync(here('out'))]).toEqual([
    2,
    expect.stringContaining('error: Nothing would score the rollouts of ungraded: '),
    [],
  ])
  expect(upstream.received).toEqual([])
  expect((await evalRun(upstream.url, '--no-grader --limit 1')).code).toBe(0)
  expect(storedResults().metrics['summary']).toMatchObject({ failed: 0, total_samples: 1 })
})

describe('osmosis eval run, refused in the middle of it', () => {
  beforeEach(() => inWorkspaceWith({}))

  const status = (): unknown => storedResults().metrics['eval_run']

  it('with 402 stops, fails no rollout and says how to continue', async () => {
    let credit = 2
    const upstream = await endpoint((_, response) => {
      if (credit-- > 0) say(response, 'one')
      else refuse(response, 402, 'Insufficient credits')
    })
    const { code, stdout, stderr } = await evalRun(upstream.url)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /error: The run is incomplete\. The policy answered 402: .*\nIts account has nothing left to spend\.\n$/,
      ),
    ])
    expect(stdout).toMatch(/^Continue .*--name costs$/m)
    expect([upstream.received.length, storedResults().costs.length]).toEqual([3, 2])
  })

  it('with 429, because of too many concurrent calls, waits, runs fewer, says so and fails none', async () => {
    let busy = 0
    const upstream = await endpoint((_, response) => {
      if (busy >= 1) {
        response.setHeader('retry-after-ms', '20')
        refuse(response, 429, 'Slow down')
        return
      }
      busy += 1
      setTimeout(() => {
        busy -= 1
        say(response, 'one')
      }, 20)
    })
    const { code, stderr } = await evalRun(upstream.url, '--n 4 --max-in-flight 4')
    expect(code).toBe(0)
    expect(stderr).toMatch(/^\d+\/16 rollouts .* [123] of 4 concurrently \(rate limit\)/m)
    expect(storedResults().metrics['summary']).toMatchObject({ failed: 0, total_samples: 16 })
  })

  it.each([
    [403, 'flagged', 'Check the key in QWEN_KEY (--api-key-env).'],
    [404, 'File Not Found', 'Check --model qwen and --base-url'],
  ])('with %i fails rows of osmosis test, and names its flags', async (refusal, said, advice) => {
    const upstream = await endpoint(({ body }, response) => {
      if (JSON.stringify(body).includes('two')) refuse(response, refusal, said)
      else say(response, 'one')
    })
    const policy = ['--base-url', `${upstream.url}/v1`, '--model', 'qwen']
    const rows = [
      '-m',
      'rollouts/echo/main.ts',
      '-d',
      'data/words.jsonl',
      '--output',
      'tested.json',
    ]
    const key = ['--api-key-env', 'QWEN_KEY']
    expect((await run(['test', ...rows, ...policy, ...key], { QWEN_KEY: 'qwen-key' })).code).toBe(1)
    const { results } = JSON.parse(readFileSync(here('tested.json'), 'utf8')) as {
      results: { error: string | null }[]
    }
    const errors = results.flatMap(({ error }) => error ?? [])
    expect(errors).toEqual([expect.stringContaining(`answered ${refusal}: ${said}. ${advice}`)])
    expect(errors.join()).not.toMatch(
      /llm_api_key|chat_completions_url|127\.0\.0\.1:\d+\/v1\/rollouts/,
    )
  })

  it.each([
    [400, 'No connected db.'],
    [500, 'Authentication Error, No api key passed in.'],
  ])('with %i about the key does not start: %s', async (refusal, said) => {
    const upstream = await endpoint((_, response) => refuse(response, refusal, said), {
      preflight: true,
    })
    const { code, stderr } = await evalRun(upstream.url)
    expect([code, stderr.replaceAll(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining(
        `${refusal}: ${said} Check the key in the environment variable QWEN_KEY.`,
      ),
    ])
    expect(upstream.received).toHaveLength(1)
  })

  it('with 403 for one prompt fails its rollout alone', async () => {
    const upstream = await endpoint(({ body }, response) => {
      if (JSON.stringify(body).includes('two')) refuse(response, 403, 'flagged by moderation')
      else say(response, 'one')
    })
    expect((await evalRun(upstream.url)).code).toBe(0)
    expect(status()).toMatchObject({ status: 'finished' })
    expect(storedResults().metrics['summary']).toMatchObject({ failed: 1 })
    // It names the user's endpoint, and no address of this process.
    expect(storedResults().errors).toEqual([
      `The policy endpoint answered 403: flagged by moderation. Check the key in QWEN_KEY (--api-key-env). (${upstream.url}/v1)`,
    ])
  })
})
