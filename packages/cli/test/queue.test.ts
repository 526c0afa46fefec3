import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import {
  RedisSentinels,
  startRedis,
  withPrograms,
  FakeController,
  post,
} from '../../../test/kit/index.ts'
import { inWorkspace, run as osmosis, sendRow, start, readResults } from './in-process.ts'
import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

withPrograms('redis-server').describe('over a queue', () => {
  it('a server leaves its rollouts to a worker, says what there is, and both end on SIGTERM', async () => {
    const redis = await startRedis({ aof: true })
    const queue = ['--redis', redis.url]
    const { command: front, url } = await startFront([echo, ...queue])
    const sent = sendRow(url)
    await front.printed(/rollout accepted/)
    const worker = await startWorker([echo, ...queue])
    expect(await sent).toMatchObject({ code: 0 })

    const second = await startFront([echo, ...queue])
    const [, code] = await front.printed(/code ([\da-f]{12})/)
    for (const { child } of [front, worker, second.command]) child.kill('SIGTERM')
    const place = `the queue osmosis at ${redis.url}, code ${code}`
    expect((await front.finished).stdout).toBe(
      `Serving EchoWorkflow of ${echo} (EchoGrader)\nOver ${place}: no worker yet, rollouts wait for one\nListening on ${url} (open, no key required)\n`,
    )
    expect((await second.command.finished).stdout).toContain(
      `Over ${place}: 1 worker for 4 rollouts\n`,
    )
    expect((await worker.finished).stdout).toBe(
      `Running EchoWorkflow of ${echo} (EchoGrader), 4 at a time\nTaking rollouts from ${place}\n`,
    )
    for (const ended of [front, worker, second.command]) {
      const { code: exitCode, stderr } = await ended.finished
      expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('append-only')])
    }
  })

  it('a queue that does not answer is named without its password', async () => {
    const args = ['serve', echo, '--port', '0', '--redis', 'redis://:secret@127.0.0.1:1']
    const { code, stderr } = await osmosis(args)
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /^error: The Redis of the queue at redis:\/\/127\.0\.0\.1:1 does not answer/,
    )
    expect(stderr).not.toContain('secret')
  })
})

const calling = 'rollouts/calling/main.ts'

/** A workflow whose reward is a field of its config. */
const tuned = `import { AgentWorkflow, defineWorkflowConfig, Grader } from '@osmosis/core'

export const config = defineWorkflowConfig({ name: 'tuned', maxTurns: 1 })

export class Tuned extends AgentWorkflow {
  async run({ prompt, config }) {
    return [...prompt, { role: 'assistant', content: String(config.maxTurns) }]
  }
}

export class Grade extends Grader {
  async grade(ctx) {
    ctx.setReward(Number(ctx.sample.messages.at(-1).content))
  }
}
`

withPrograms('redis-server').it(
  'a worker is unhealthy while its Redis stores nothing, and says once why',
  { tags: 'slow' },
  async () => {
    const redis = await startRedis()
    const worker = startOsmosis(['worker', calling, '--redis', redis.url, '--port', '0'])
    const [, url = ''] = await worker.printed(listening)
    const health = async (): Promise<number> => (await fetch(`${url}/health`)).status
    expect(await health()).toBe(200)
    await redis.kill()
    await expect.poll(health).toBe(503)
    await redis.restart()
    await expect.poll(health).toBe(200)
    await worker.printed(/ stores again\./)
    worker.child.kill('SIGTERM')
    const { stderr } = await worker.finished
    expect(stderr.match(/Rollouts wait until it stores them/g)).toHaveLength(1)
  },
)

withPrograms('redis-server').it(
  'a worker whose port is taken takes no rollout, and leaves those of the queue to others',
  { tags: 'slow' },
  async () => {
    const redis = await startRedis()
    await using controller = await new FakeController().start()
    const queue = ['--redis', redis.url]
    const { command: front, url } = await startFront([calling, ...queue])
    await post(`${url}/rollout`, controller.rolloutBody())
    await front.printed(/rollout accepted/)
    const taken = new URL(url).port
    const refused = await osmosis(['worker', calling, ...queue, '--port', taken])
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toContain(
      `error: Port ${taken} of 127.0.0.1 is used by another program.`,
    )
    expect(refused.stderr).not.toContain('rollout taken')
    expect(controller.events).not.toContain('policy call')
    const second = start(['serve', calling, ...queue, '--port', '0', '--no-trajectories'])
    const [, workers] = await second.printed(/^Over .*, code \w+: (.*)$/m)
    expect(workers).toBe('no worker yet, rollouts wait for one')
    await second.end()
    await startWorker([calling, ...queue])
    expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
  },
)

withPrograms('redis-server').it(
  'rollouts with other values of a config are left to a worker that has the same',
  { tags: 'slow' },
  async () => {
    const redis = await startRedis()
    const root = temporaryWorkspace({
      'osmosis.toml': `[queue]\nredis = "${redis.url}"\n`,
      'rollouts/tuned/main.ts': tuned,
      'configs/eval/tuned.toml': evalConfig(
        'tuned',
        '[workflow]\nmax_turns = 3\n\n[secrets]\nrequired = []\n',
      ),
    })
    const worker = async (...set: string[]): Promise<RunningCommand> => {
      const args = ['worker', 'rollouts/tuned/main.ts', '--redis', redis.url, ...set]
      const command = startOsmosis(args, {}, root)
      await command.printed(/Taking rollouts from/)
      return command
    }
    const [other, wrong] = [await worker(), await worker('--set', 'max_turns=4')]
    const flags = ['--policy', 'policies/echo.ts', '--limit', '1', '--output', temporaryFolder()]
    const evaluated = osmosis(['eval', 'run', 'configs/eval/tuned.toml', ...flags], {}, root)
    await Promise.any([other, wrong].map(async (one) => one.printed(/accepted for other code/)))
    await worker('--set', 'maxTurns=3')
    const { code, stdout } = await evaluated
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^Reward +3$/m)])
  },
)

withPrograms('redis-server').describe('over a queue', { tags: 'nightly' }, () => {
  it('a server takes back the limit that another has set', async () => {
    const redis = await startRedis({ aof: true })
    const queue = ['--redis', redis.url]
    const { command: limited } = await startFront([echo, ...queue, '--max-rollouts', '1'])
    const [{ command: front, url }, worker] = await Promise.all([
      startFront([echo, ...queue, '--max-rollouts', 'none']),
      startWorker([echo, ...queue]),
    ])
    const sent = await sendRow(url)
    expect(sent.code).toBe(0)
    for (const { child } of [limited, front, worker]) child.kill('SIGTERM')
    for (const { finished } of [limited, front, worker]) await finished
  })

  it('both say at their start that a Redis may lose what it was given, and a server that it does not report ownership', async () => {
    const redis = await startRedis({ config: { 'maxmemory-policy': 'allkeys-lru' } })
    const queue = ['--redis', redis.url]
    const environment = { OSMOSIS_ROLLOUT_OTLP_ENDPOINT: 'http://127.0.0.1:9' }
    const front = startOsmosis(['serve', echo, ...queue, '--port', '0'], environment)
    const started = [front, await startWorker([echo, ...queue])]
    for (const command of started) {
      await command.printed(/evicts keys when its memory is full/)
      command.child.kill('SIGTERM')
      const { stderr } = await command.finished
      expect(stderr).toContain(`The Redis at ${redis.url} has no append-only file`)
      expect(stderr).toContain('(allkeys-lru)')
    }
    // No server owns a rollout.
    expect((await front.finished).stderr).toContain('ownership is not reported')
  })

  it('a worker finishes its rollouts on shutdown, and a second signal ends it immediately', async () => {
    const redis = await startRedis()
    await using controller = await new FakeController().start()
    controller.hanging = true
    const queue = ['--redis', redis.url]
    const { url } = await startFront([calling, ...queue])
    const worker = await startWorker([calling, ...queue])
    await post(`${url}/rollout`, controller.rolloutBody())
    await controller.until(() => controller.events.includes('policy call'))
    worker.child.kill('SIGTERM')
    await worker.printed(/signal received: shutting down/)
    expect(controller.openPolicyCalls).toBe(1)
    worker.child.kill('SIGTERM')
    expect(await worker.finished).toMatchObject({ code: 143 })
  })

  it('a worker runs user code in processes of its own, and answers for its health and its figures', async () => {
    const redis = await startRedis()
    const flags = ['--concurrency', '6', '--workers', '2', '--port', '0']
    const worker = await startWorker([echo, '--redis', redis.url, ...flags])
    const [, url = ''] = await worker.printed(listening)
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({
      status: 'ok',
      concurrency: { max_concurrent: 6, queued: 0, running: 0 },
      lifecycle: { accepting_rollouts: true, active_rollouts: 0 },
    })
    const figures = await (await fetch(`${url}/metrics`)).text()
    expect(figures).toMatch(/^osmosis_rollout_slots 6$/m)
    expect(figures).toMatch(/^osmosis_workers 2$/m)
  })

  it('servers and workers of a queue with a password and a file of keys understand one another', async () => {
    const password = '50%off/the?pass#word@%41'
    const redis = await startRedis({ config: { requirepass: password } })
    await using controller = await new FakeController().start()
    const keys = path.join(temporaryFolder(), 'keys')
    writeFileSync(keys, `${Buffer.alloc(32, 1).toString('base64')}\n`)
    const env = { OSMOSIS_REDIS_PASSWORD: password, OSMOSIS_QUEUE_KEY_FILE: keys }
    const queue = ['--redis', redis.url]
    const front = startOsmosis(['serve', calling, '--port', '0', ...queue], env)
    const [, url = ''] = await front.printed(listening)
    const worker = startOsmosis(['worker', calling, ...queue], env)
    await worker.printed(/Taking rollouts/)
    await post(`${url}/rollout`, controller.rolloutBody())
    expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
  })

  it('an evaluation says that the workers of a queue do not get its variables, and that there are none yet', async () => {
    const redis = await startRedis()
    const root = temporaryWorkspace({
      'osmosis.toml': `[queue]\nredis = "${redis.url}"\n`,
      'configs/eval/echo.toml': evalConfig(
        'echo',
        '[env]\nLEVEL = "1"\n\n[secrets]\nrequired = []\n',
      ),
    })
    const args = [
      'eval',
      'run',
      'configs/eval/echo.toml',
      '--policy',
      'policies/echo.ts',
      '--dry-run',
    ]
    const [over, here] = await Promise.all([
      osmosis(args, {}, root),
      osmosis([...args, '--workers', '1'], {}, root),
    ])
    const variables =
      'warning: [env] and [secrets] of the config do not reach the workers of a queue'
    expect([over.code, here.code]).toEqual([0, 0])
    expect(over.stderr).toContain(variables)
    expect(over.stderr).toContain('16 concurrently: no worker of the queue has this code yet')
    expect(here.stderr).not.toContain(variables)
    expect(here.stderr).not.toContain('queue')
  })

  it('the policy of an evaluation listens where --policy-host says, and its password is stored nowhere', async () => {
    const redis = await startRedis({ config: { requirepass: 'the-password' } })
    const address = redis.url.replace('//', '//:the-password@')
    const root = temporaryWorkspace({ 'osmosis.toml': `[queue]\nredis = "${address}"\n` })
    // Connects nowhere else, and so has asked there.
    const worker = startOsmosis(
      ['worker', echo, '--redis', address, '--allow-host', '127.0.0.2'],
      {},
      root,
    )
    await worker.printed(/Taking rollouts/)
    const output = temporaryFolder()
    const words = `-m ${echo} -d data/words.jsonl --policy policies/echo.ts --output ${output} --name r`
    const args = ['eval', 'run', ...words.split(' '), '--policy-host', '127.0.0.2']
    const { code, stdout, stderr } = await osmosis(args, {}, root)
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('warning')])
    const written = globSync('r/**/*', { cwd: output, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'utf8'))
    expect(written.join('\n')).not.toContain('the-password')
    expect(stdout).not.toContain('the-password')
  })

  it.each([
    ['one Redis', async () => startRedis()],
    [
      'Sentinels with a password',
      async () => RedisSentinels.start({ password: 'of-redis', sentinelPassword: 'of-sentinels' }),
    ],
  ])(
    'osmosis eval run evaluates on the workers of the queue of osmosis.toml (%s)',
    async (_, at) => {
      const redis = await at()
      const root = temporaryWorkspace({
        'osmosis.toml': `[queue]\nredis = "${redis.url}"\nprefix = "team"\n`,
        '.env': 'OSMOSIS_REDIS_SENTINEL_PASSWORD=of-sentinels\n',
      })
      const worker = startOsmosis(
        ['worker', echo, '--redis', redis.url],
        { OSMOSIS_REDIS_PREFIX: 'team' },
        root,
      )
      await worker.printed(/Taking rollouts from the queue team/)
      const output = temporaryFolder()
      const words = `-m ${echo} -d data/words.jsonl --policy policies/echo.ts --output ${output} --name r`
      const { code, stderr } = await osmosis(['eval', 'run', ...words.split(' ')], {}, root)
      expect([code, stderr]).toEqual([0, expect.any(String)])
      const { records, run } = readResults(path.join(output, 'r'))
      expect(run).toMatchObject({ status: 'finished' })
      expect(records.map(({ status }) => status)).toEqual(Array(records.length).fill('success'))
      await worker.printed(/rollout taken/)
    },
  )
})

const echo = 'rollouts/echo/main.ts'
const listening = /Listening on (\S+)/

/** Starts a server of a queue, and resolves with its address as well. */
async function startFront(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ command: RunningCommand; url: string }> {
  const command = startOsmosis(['serve', ...args, '--port', '0', '--no-trajectories'], env)
  const [, url = ''] = await command.printed(listening)
  return { command, url }
}

/** Starts a worker, and resolves when it takes rollouts. */
async function startWorker(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<RunningCommand> {
  const command = startOsmosis(['worker', ...args], env)
  await command.printed(/Taking rollouts from/)
  return command
}
