import { startRedis, withPrograms } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis, sendRow } from './in-process.ts'
import { echo, startFront, startWorker } from './queue-commands.ts'

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
