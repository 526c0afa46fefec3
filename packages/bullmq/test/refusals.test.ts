import { OsmosisError } from '@osmosis/core'
import { ReplyError } from 'ioredis'
import { expect, it } from 'vitest'

import { refusalWord, retryFor } from '../src/connection/queue-retries.ts'

const refused = (message: string): Error =>
  new (ReplyError as new (message: string) => Error)(message)
const unavailable = (cause: unknown): OsmosisError =>
  new OsmosisError('queue_unavailable', 'The Redis refuses', { cause })

// As Redis 6.2 and 7.0 answer.
it.each([
  ['NOREPLICAS Not enough good replicas to write.', 'NOREPLICAS'],
  ["OOM command not allowed when used memory > 'maxmemory'.", 'OOM'],
  [
    "ERR Error running script (call to f_4c1): @user_script:3: @user_script: 3: -OOM command not allowed when used memory > 'maxmemory'.",
    'OOM',
  ],
  [
    "READONLY You can't write against a read only replica. script: 4c1, on @user_script:1.",
    'READONLY',
  ],
  ['ERR unknown command', 'ERR'],
])('%s is the refusal %s', (message, word) => {
  expect(refusalWord(unavailable(refused(message)))).toBe(word)
})

it.each([
  ['an answer that did not come', unavailable(new Error('OOM Connection is closed.'))],
  ['an error of something else', refused('OOM command not allowed')],
])('%s is none', (_, error) => {
  expect(refusalWord(error)).toBeUndefined()
})

it('an error that is none of Redis is not tried again', async () => {
  let calls = 0
  const bug = new TypeError('record is not iterable')
  const asked = retryFor(60_000, async () => {
    calls += 1
    throw bug
  })
  await expect(asked).rejects.toBe(bug)
  expect(calls).toBe(1)
})

it.each([
  ['fails again', async () => Promise.reject(unavailable(refused('OOM the second time')))],
  ['does not end', async () => new Promise<never>(() => {})],
])('a call that %s for too long rejects with what Redis said', async (_, later) => {
  const full = unavailable(refused('OOM command not allowed'))
  const calls = [async (): Promise<never> => Promise.reject(full)]
  const asked = retryFor(900, async () => (calls.pop() ?? later)())
  await expect(asked).rejects.toSatisfy((error) => refusalWord(error) === 'OOM')
})

it('a first call that does not end is ended', async () => {
  const asked = retryFor(50, async () => new Promise<never>(() => {}))
  await expect(asked).rejects.toMatchObject({ code: 'queue_unavailable' })
})
