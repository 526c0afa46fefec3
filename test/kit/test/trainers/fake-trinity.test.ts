import { FakeTrinity, type FakeTrinityOptions } from '../../trainers/index.ts'
import { tokenAnswer } from '../../index.ts'
import { expect, test } from 'vitest'

const said: FakeTrinityOptions['model'] = (body) => tokenAnswer(body, { content: 'ok' })

async function start(options: Partial<FakeTrinityOptions> = {}): Promise<FakeTrinity> {
  return FakeTrinity.start({ model: said, ...options })
}

async function send(fake: FakeTrinity, path: string, body: object): Promise<Response> {
  return fetch(fake.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-rollout-id': 'r1' },
    body: JSON.stringify(body),
  })
}

async function ask(fake: FakeTrinity, settings: object = {}): Promise<string> {
  const messages = [{ role: 'user', content: '?' }]
  const response = await send(fake, '/v1/chat/completions', {
    model: 'policy',
    messages,
    ...settings,
  })
  expect(response.status).toBe(200)
  return ((await response.json()) as { id: string }).id
}

const feedback = (ids: readonly string[], reward: unknown, task = 't', run = 0): object => ({
  task_id: task,
  run_id: run,
  msg_ids: ids,
  reward,
})

test('trains the calls with a reward on a commit, with ids and logprobs as they were sampled', async () => {
  await using fake = await start()
  const [first, second, silent] = [await ask(fake), await ask(fake), await ask(fake)]
  await send(fake, '/feedback', feedback([first], 1))
  await send(fake, '/feedback', feedback([second], 0.5, 'u', 3))
  expect(fake.trained()).toEqual([])
  await send(fake, '/commit', {})

  expect(fake.trained().map(({ id, group, run, reward }) => [id, group, run, reward])).toEqual([
    [first, 't', 0, 1],
    [second, 'u', 3, 0.5],
  ])
  const [call] = fake.trained()
  expect(call?.rolloutId).toBe('r1')
  expect(String.fromCodePoint(...(call?.ids ?? []))).toBe('{"content":"ok"}')
  expect(call?.logprobs).toHaveLength(call?.ids.length ?? -1)
  expect(fake.unrewarded().map(({ id }) => id)).toEqual([silent])
})

test('ignores ids that are unknown or were rewarded before, and answers 200', async () => {
  await using fake = await start()
  const id = await ask(fake)
  await send(fake, '/feedback', feedback([id, 'unknown'], 1))
  const again = await send(fake, '/feedback', feedback([id, 'unknown'], 0))
  expect(again.status).toBe(200)
  await send(fake, '/commit', {})
  await send(fake, '/feedback', feedback([id], 0))
  await send(fake, '/commit', {})
  expect(fake.trained().map(({ reward }) => reward)).toEqual([1])
  expect(fake.commits()).toHaveLength(1)
})

test('refuses a feedback without a reward', async () => {
  await using fake = await start()
  const response = await send(fake, '/feedback', feedback([await ask(fake)], null))
  expect(response.status).toBe(400)
  expect(fake.unrewarded()).toHaveLength(1)
})

test('an answer takes the place of an earlier one with its id, and none that of a rewarded one', async () => {
  let content = 'first'
  const model: FakeTrinityOptions['model'] = (body) => tokenAnswer(body, { content }, 'same')
  await using fake = await start({ model })
  await ask(fake)
  content = 'second'
  await ask(fake)
  await send(fake, '/feedback', feedback(['same'], 1))
  content = 'third'
  await ask(fake)
  await send(fake, '/feedback', feedback(['same'], 0))
  await send(fake, '/commit', {})
  const texts = fake.trained().map(({ ids }) => String.fromCodePoint(...ids))
  expect(texts).toEqual(['{"content":"second"}'])
})

test('answers streams, other model names and a model that fails with 500', async () => {
  let broken = false
  await using fake = await start({
    model: (body) => {
      if (broken) throw new Error('out of memory')
      return tokenAnswer(body, { content: 'ok' })
    },
  })
  const messages = [{ role: 'user', content: '?' }]
  const status = async (body: object): Promise<number> =>
    (await send(fake, '/v1/chat/completions', { model: 'policy', messages, ...body })).status
  expect(await status({ stream: true })).toBe(500)
  expect(await status({ model: 'osmosis-rollout' })).toBe(500)
  broken = true
  expect(await status({})).toBe(500)
  expect(fake.unrewarded()).toEqual([])
})

test('a lost answer has taken effect, a reset and an error status have not', async () => {
  const faults = ['lost answer', 'reset', 503] as const
  await using fake = await start({ faults: (_request, n) => faults[n] })
  const body = { model: 'policy', messages: [{ role: 'user', content: '?' }] }
  await expect(send(fake, '/v1/chat/completions', body)).rejects.toThrow('fetch failed')
  expect(fake.unrewarded()).toHaveLength(1)
  await expect(send(fake, '/v1/chat/completions', body)).rejects.toThrow('fetch failed')
  expect((await send(fake, '/v1/chat/completions', body)).status).toBe(503)
  expect(fake.unrewarded()).toHaveLength(1)
})

test('holds model calls while it is paused, and the commit while it trains', async () => {
  const order: string[] = []
  await using fake = await start({
    onCommit: (calls) => {
      order.push(`trained ${calls.length}`)
    },
  })
  fake.pause()
  const asked = ask(fake).then((id) => {
    order.push('answered')
    return id
  })
  await (await fetch(`${fake.url}/v1/models`)).json()
  order.push('resumed')
  fake.resume()
  await send(fake, '/feedback', feedback([await asked], 1))
  await send(fake, '/commit', {})
  order.push('committed')
  expect(order).toEqual(['resumed', 'answered', 'trained 1', 'committed'])
})
