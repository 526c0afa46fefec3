import { startRolloutWorker } from '@osmosis/bullmq'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, onTestFinished } from 'vitest'

import { recordingLogger, startRedis, withPrograms, type LogLine } from '../../../test/kit/index.ts'
import { lookInto } from './queue-under-test.ts'
import { askPolicy, startServers, workflowOf } from './servers-under-test.ts'
import { code } from './user-code.ts'

withPrograms('redis-server').it(
  'after its password was changed, servers and workers say what to do, and go on when it is taken again',
  async () => {
    const redis = await startRedis({ aof: true })
    const operator = lookInto(redis)
    const change = async (from: string, to: string): Promise<void> => {
      await operator.acl('SETUSER', 'team', 'on', '~*', '&*', '+@all', `<${from}`, `>${to}`)
      // As providers do it: those who are logged in have to log in again.
      await operator.client('KILL', 'USER', 'team')
    }
    await operator.acl('SETUSER', 'team', 'on', '~*', '&*', '+@all', '>first-secret')
    const url = redis.url.replace('//', '//team:first-secret@')
    const { a, controller } = await startServers({ connection: { url }, workers: 0 })
    const workerLog: LogLine[] = []
    const worker = await startRolloutWorker({
      url,
      backend: new LocalBackend({ workflow: workflowOf(askPolicy) }),
      code,
      concurrency: 10,
      logger: recordingLogger(workerLog),
    })
    onTestFinished(async () => worker.close(AbortSignal.abort()))
    const health = async (): Promise<number> => (await fetch(`${a.url}/health`)).status
    const told = (log: readonly LogLine[]): readonly LogLine[] =>
      log.filter(({ message }) => message.startsWith('The Redis of the queue'))

    await change('first-secret', 'second-secret')
    await expect.poll(health).toBe(503)
    await expect
      .poll(() => [told(a.log), told(workerLog)].map(({ length }) => length))
      .toEqual([1, 1])
    expect(worker.trouble?.message).toContain('WRONGPASS')

    await change('second-secret', 'first-secret')
    await expect.poll(health).toBe(200)
    await expect.poll(() => worker.trouble).toBeUndefined()
    await expect.poll(async () => (await a.post({ grader_callback_url: null })).status).toBe(202)
    expect(await controller.bodies(1)).toMatchObject([{ status: 'success' }])
    for (const log of [a.log, workerLog]) {
      expect(told(log).map(({ level, message }) => [level, message])).toEqual([
        [
          'warn',
          expect.stringMatching(
            / refuses: WRONGPASS .*\. Start this process with the password that it takes now \(OSMOSIS_REDIS_PASSWORD, or in the address\)\. Rollouts wait until it stores them\.$/,
          ),
        ],
        ['info', expect.stringMatching(/ stores again\.$/)],
      ])
      expect(JSON.stringify(log)).not.toContain('secret')
    }
  },
)
