import { expect } from 'vitest'

import { RedisSentinels, withPrograms } from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import { startServers } from './servers-under-test.ts'

const passwords = { password: 'of/redis?', sentinelPassword: 'of:sentinels' } as const

withPrograms('redis-server').describe('a queue whose primary Sentinels name', () => {
  const { it } = withPrograms('redis-server')

  it(
    'goes on by itself when a replica takes the place of its primary',
    { tags: 'slow' },
    async () => {
      const redis = await RedisSentinels.start({ sentinels: 3, ...passwords })
      const connection = { url: redis.url, sentinelPassword: passwords.sentinelPassword }
      const { a, b, controller } = await startServers({ connection })
      expect(a.queue.address).toMatch(
        /^redis\+sentinel:\/\/127\.0\.0\.1:\d+,\S+:\d+,\S+:\d+\/rollouts$/,
      )
      const health = async (): Promise<number> => (await fetch(`${a.url}/health`)).status
      await expect.poll(async () => (await a.post({ rollout_id: 'before' })).status).toBe(202)
      await controller.bodies()
      await redis.failOver()
      await expect.poll(health).toBe(200)
      // Each server opens its own new connection.
      await expect
        .poll(async () => b.get('/rollout/before/status'))
        .toMatchObject({ status: 'success' })
      await expect.poll(async () => (await a.post({ rollout_id: 'after' })).status).toBe(202)
      const answered = async (): Promise<unknown> =>
        controller.callbacks.length >= 4 || b.get('/rollout/after/status')
      await expect.poll(answered, { timeout: 120_000 }).toBe(true)
    },
  )

  it('is refused with what the Sentinels said', async () => {
    const redis = await RedisSentinels.start(passwords)
    const { sentinelPassword } = passwords
    const refused = async (url: string, password?: string): Promise<void> => {
      const queue = await RolloutQueue.open({ url, sentinelPassword: password })
      await queue.close()
    }
    const other = redis.url.replace(/rollouts$/, 'others')
    await expect(refused(other, sentinelPassword)).rejects.toThrow(
      '/others does not answer: no Sentinel names the primary others: ERR No such master',
    )
    await expect(refused(redis.url)).rejects.toThrow('NOAUTH')
    await expect(refused(redis.url, 'wrong')).rejects.toThrow('WRONGPASS')
    await expect(
      refused(redis.url.replace(/:[^:@]*@/, ':wrong@'), sentinelPassword),
    ).rejects.toThrow('refuses: WRONGPASS')
    await redis.stop()
    await expect(refused(redis.url, sentinelPassword)).rejects.toThrow(
      'the primary rollouts: none answers',
    )
  })
})
