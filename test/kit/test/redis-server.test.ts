import { createConnection } from 'node:net'
import { once } from 'node:events'

import { type RedisServer, startRedis, withPrograms } from '../index.ts'
import { expect } from 'vitest'

const { it } = withPrograms('redis-server')

async function command(redis: RedisServer, text: string): Promise<string> {
  const socket = createConnection(Number(new URL(redis.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`${text}\r\n`)
  const [data] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return data.toString()
}

it('keeps what was written when it is killed, if it was started with AOF, and else loses it', async () => {
  for (const aof of [true, false]) {
    const redis = await startRedis({ aof })
    expect(await command(redis, 'SET k v')).toBe('+OK\r\n')
    await redis.kill()
    await expect(command(redis, 'GET k')).rejects.toThrow(/ECONNREFUSED/)
    await redis.restart()
    expect(await command(redis, 'GET k')).toBe(aof ? '$1\r\nv\r\n' : '$-1\r\n')
  }
})
