import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { QueueConnection } from '../src/connection/queue-connection.ts'

const info = 'redis_version:7.2.0\r\nrole:master\r\nloading:0\r\n'
const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`

/** Answers commands as Redis does: GET with the name of the key, so that an answer shows whose it is. */
function answerTo([name = '', key = '']: readonly string[]): string {
  const word = name.toLowerCase()
  if (word === 'info') return bulk(info)
  if (word === 'get') return bulk(key)
  return word === 'ping' ? bulk(key) : '+OK\r\n'
}

function commandsIn(text: string): string[][] {
  return [...text.matchAll(/\*\d+\r\n((?:\$\d+\r\n[^\r]*\r\n)+)/g)].map(([, words = '']) =>
    [...words.matchAll(/\$\d+\r\n([^\r]*)\r\n/g)].map(([, word = '']) => word),
  )
}

/** A stand-in of Redis. `answer` gives what it sends for a command on its nth connection; default: as Redis does. */
async function redisLike(
  answer: (command: readonly string[], connection: number) => string | Uint8Array | undefined,
): Promise<QueueConnection> {
  let connections = 0
  const server = createServer((socket) => {
    const number = (connections += 1)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      for (const command of commandsIn(bytes.toString())) {
        socket.write(answer(command, number) ?? answerTo(command))
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const queue = new QueueConnection({ url: `redis://127.0.0.1:${port}` })
  onTestFinished(() => {
    queue.close()
    server.close()
  })
  return queue
}

describe('a Redis that is not the primary', () => {
  it.each([
    "-READONLY You can't write against a read only replica.",
    "-READONLY You can't write against a read only replica. script: 4ca1, on @user_script:1.",
    "-ERR Error running script (call to f_4c): @user_script:1: -READONLY You can't write against a read only replica.",
    '-LOADING Redis is loading the dataset in memory',
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    '-CLUSTERDOWN The cluster is down',
    '-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)',
  ])('is left for a new connection after %s', async (refusal) => {
    const queue = await redisLike(([name], connection) =>
      name === 'set' && connection <= 2 ? `${refusal}\r\n` : undefined,
    )
    const [failing, waiting] = [queue.failing(), queue.waiting()]
    await failing.connect()
    for (const redis of [failing, waiting]) {
      await expect.poll(async () => redis.set('k', 'v').catch(() => 'refused')).toBe('OK')
    }
  })

  it('is not left for other errors', async () => {
    let most = 0
    const queue = await redisLike(([name, key], connection) => {
      most = Math.max(most, connection)
      return name === 'set' ? `-ERR READ ONLY and READONLYNESS of ${key}\r\n` : undefined
    })
    const redis = queue.waiting()
    for (let time = 0; time < 3; time += 1) await expect(redis.set('k', 'v')).rejects.toThrow('ERR')
    expect(await redis.get('k')).toBe('k')
    expect(most).toBe(1)
  })
})

const garbage: readonly (readonly [what: string, bytes: () => string | Uint8Array])[] = [
  ['bytes at random', () => randomBytes(64)],
  ['lines of text', () => 'garbage\r\n'],
  ['an answer of HTTP', () => 'HTTP/1.1 400 Bad Request\r\n\r\n'],
  ['the length of an answer that never comes', () => '$999999999\r\nx'],
  ['half a length', () => '$5'],
  ['a list that never ends', () => '*999999999\r\n'],
  ['half a line', () => '+garb'],
  ['half an error', () => '-garb'],
  ['half a number', () => ':1'],
  ['nothing', () => ''],
]

describe('a connection that sends garbage for a while', () => {
  it.each(garbage)('answers every command again: %s', async (_, bytes) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    let isBroken = false
    const queue = await redisLike(() => (isBroken ? bytes() : undefined))
    const [failing, waiting] = [queue.failing(), queue.waiting()]
    await failing.connect()
    // As BullMQ makes one.
    const blocking = waiting.duplicate().on('error', () => {})
    const all = [failing, waiting, blocking]
    for (const redis of all) expect(await redis.get('before')).toBe('before')

    isBroken = true
    const asked = all.map(async (redis) => redis.get('meanwhile').catch(() => 'failed'))
    await new Promise((resolve) => setTimeout(resolve, 50))
    isBroken = false
    const settled = Promise.all(asked)
    const askAgain = async (): Promise<unknown> => {
      vi.advanceTimersByTime(5_000)
      return Promise.race([
        Promise.all(all.map(async (redis) => redis.get('after').catch(() => 'failed'))),
        new Promise((resolve) => setTimeout(resolve, 300)),
      ])
    }
    await expect.poll(askAgain).toEqual(all.map(() => 'after'))
    await settled
  })
})

it.each([
  ['the word of the PING', undefined],
  ['an error, as to a user without the right to PING', '-NOPERM no permissions\r\n'],
])('a connection that answers is not opened again: %s', async (_, answer) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  let most = 0
  const queue = await redisLike(([name], connection) => {
    most = Math.max(most, connection)
    return name === 'ping' ? answer : undefined
  })
  const redis = queue.waiting()
  for (let time = 0; time < 20; time += 1) {
    vi.advanceTimersByTime(5_000)
    expect(await redis.get('k')).toBe('k')
  }
  expect(most).toBe(1)
})
