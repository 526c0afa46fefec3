import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'

import { QueueKeys } from '@osmosis/bullmq'
import type { Redis } from 'ioredis'
import { expect } from 'vitest'

import { withPrograms } from '../../../test/kit/index.ts'
import { lookInto } from './queue-under-test.ts'
import { startServers, workflowOf } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

const planted = {
  controller: 'planted-controller-key-5d1f',
  policy: 'planted-policy-key-77aa',
  prompt: 'planted prompt 31ce',
}

/** The whole content of Redis as text. */
async function contents(redis: Redis): Promise<string> {
  const all = await redis.eval(
    `
    local all = {}
    local function add(key, values)
      for _, value in ipairs(values) do table.insert(all, key .. ' ' .. value) end
    end
    for _, key in ipairs(redis.call('KEYS', '*')) do
      local type = redis.call('TYPE', key).ok
      if type == 'hash' then add(key, redis.call('HGETALL', key))
      elseif type == 'string' then add(key, { redis.call('GET', key) })
      elseif type == 'list' then add(key, redis.call('LRANGE', key, 0, -1))
      elseif type == 'set' then add(key, redis.call('SMEMBERS', key))
      elseif type == 'zset' then add(key, redis.call('ZRANGE', key, 0, -1))
      else
        for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do add(key, entry[2]) end
      end
    end
    return all`,
    0,
  )
  return (all as string[]).join('\n')
}

it('no secret of a caller is readable in the Redis of a queue with keys, at any time', async () => {
  const keys = new QueueKeys([randomBytes(32)])
  const { a, b, redis, controller } = await startServers({
    connection: { keys },
    workflow: workflowOf(async () => {
      throw new Error(`401: ${planted.policy} is not a key`)
    }),
  })
  const client = lookInto(redis)
  const seen: string[] = []
  const look = async (response: ServerResponse): Promise<void> => {
    seen.push(await contents(client))
    response.writeHead(200).end()
  }
  // While callbacks are pending, all fields exist.
  controller.otherwise = () => (response) => {
    look(response).catch(() => response.destroy())
  }
  const secret = {
    controller_api_key: planted.controller,
    llm_api_key: planted.policy,
    initial_messages: [{ role: 'user', content: planted.prompt }],
  }
  await a.post({ rollout_id: 'called', ...secret })
  const handle = await b.start({ rollout_id: 'leased', ...secret })
  await handle.until()
  await controller.bodies()
  await expect.poll(async () => a.get('/health')).toMatchObject({ undelivered: 0 })
  seen.push(await contents(client))

  expect(seen.length).toBeGreaterThan(2)
  expect(seen[0]).toContain('osmosis:rollout:called')
  const token = handle.accepted.polling_lease_token
  for (const text of seen) {
    for (const word of [...Object.values(planted), token]) {
      const line = text.split('\n').find((one) => one.includes(word))
      expect(line).toBeUndefined()
    }
  }
  for (const { log } of [a, b]) expect(JSON.stringify(log)).not.toContain('planted-')
  expect(await b.get('/rollout/called/status')).toMatchObject({
    err_message: expect.not.stringContaining(planted.policy),
  })
})
