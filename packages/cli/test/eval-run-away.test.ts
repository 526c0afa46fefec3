import { readFileSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it } from 'vitest'

import { restartingServer } from '../../../test/kit/restarting-server.ts'
import { here, run, workIn } from './in-process.ts'
import { endpoint, noRetries, refuse, say } from './model-endpoint.ts'
import type { Finished } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

beforeEach(() => workIn(temporaryWorkspace({ 'configs/eval/echo.toml': evalConfig('echo') })))

function evalRun(url: string): Promise<Finished> {
  const policy = ['--base-url', `${url}/v1`, '--model', 'qwen', '--max-in-flight', '2']
  const place = ['--name', 'away', '--output', 'out']
  return run(['eval', 'run', 'configs/eval/echo.toml', ...policy, ...place], noRetries)
}

function statuses(): unknown[] {
  const text = readFileSync(path.join(here('out/away'), 'events.jsonl'), 'utf8')
  const lines = text.split('\n').slice(0, -1)
  return lines.map((line) => (JSON.parse(line) as Record<string, unknown>)['status'])
}

describe('osmosis eval run behind a gateway whose server is down', () => {
  /** A run that is paused while its gateway answers so, then the same when that is over. */
  const runs = async (status: number, text: string) => {
    let isDown = true
    const gateway = await endpoint(
      (_, response) => (isDown ? refuse(response, status, text) : say(response, 'one')),
      { preflight: true },
    )
    const { code, stderr, stdout } = await evalRun(gateway.url)
    const paused = { code, stderr, stdout, statuses: statuses() }
    isDown = false
    const again = await evalRun(gateway.url)
    return { paused, again: { code: again.code, statuses: statuses() } }
  }
  const pauseOf = (status: number) => ({
    paused: {
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(
          `The run is incomplete\\. 4 consecutive rollouts were lost to the policy\\. .*${status}`,
        ),
      ) as string,
      stdout: expect.stringMatching(/^Continue .*--name away$/m) as string,
      statuses: [],
    },
    again: { code: 0, statuses: ['success', 'success', 'success', 'success'] },
  })

  it('that answers 503 pauses with all rows pending, and continues', async () => {
    expect(await runs(503, 'no healthy upstream')).toEqual(pauseOf(503))
  })

  it.each([
    [500, 'litellm.InternalServerError: Connection error.'],
    [502, 'Bad Gateway'],
    [504, 'Gateway Timeout'],
  ])(
    'that answers %i pauses with all rows pending, and continues',
    { tags: 'slow' },
    async (status, text) => {
      expect(await runs(status, text)).toEqual(pauseOf(status))
    },
  )

  it('for one row alone counts that as failed', async () => {
    let calls = 0
    const gateway = await endpoint((_, response) => {
      calls += 1
      if (calls >= 4) refuse(response, 500, 'this prompt is too much')
      else say(response, 'one')
    })
    const { code } = await evalRun(gateway.url)
    expect([code, statuses()]).toEqual([0, ['success', 'success', 'success', 'failed']])
  })
})

it('osmosis eval run waits for a policy that restarts, and fails no rollout', async () => {
  let calls = 0
  const server = await restartingServer((request, response) => {
    request.resume().on('end', () => {
      calls += 1
      say(response, 'one')
      // After the preflight and one rollout.
      if (calls === 2) setImmediate(() => void restart())
    })
  })
  async function restart(): Promise<void> {
    await server.stop()
    setTimeout(() => void server.start(), 500)
  }
  await server.start()
  const { code } = await evalRun(server.url.replace(/\/v1$/, ''))
  expect([code, statuses()]).toEqual([0, ['success', 'success', 'success', 'success']])
})

it('osmosis eval run fails at once at an address where nothing ever answered', async () => {
  const { url } = await restartingServer(() => {})
  const started = performance.now()
  const { code, stderr } = await evalRun(url.replace(/\/v1$/, ''))
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /cannot be reached: .*Start what should answer there, or check the base URL\./s,
    ),
  ])
  // It would wait for a minute and a half.
  expect(performance.now() - started).toBeLessThan(60_000)
})
