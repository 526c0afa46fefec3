import { FakeAgentLightning, randomFaults, type QueuedRollout } from '../../trainers/index.ts'
import { tokenAnswer } from '../../index.ts'
import { expect, test } from 'vitest'

const headers = { authorization: 'Bearer key', 'content-type': 'application/json' }

async function start(rollouts: readonly QueuedRollout[] = [{ input: {} }]): Promise<Gateway> {
  const fake = await FakeAgentLightning.start({
    apiKey: 'key',
    model: (body) => tokenAnswer(body, { content: 'ok' }),
  })
  fake.enqueue(rollouts)
  return new Gateway(fake)
}

/** The fake, and what a worker says to it about `rollout-0`. */
class Gateway implements AsyncDisposable {
  readonly fake: FakeAgentLightning

  constructor(fake: FakeAgentLightning) {
    this.fake = fake
  }

  async send(method: string, path: string, body?: unknown): Promise<Response> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    return fetch(this.fake.url + path, { method, headers, ...sent })
  }

  async patch(status: object): Promise<number> {
    return (await this.send('PATCH', '/api/rollouts/rollout-0', { status })).status
  }

  async claim(attempt = '0'): Promise<number> {
    return this.patch({ state: 'running', last_attempt_id: attempt })
  }

  async ask(content: string, attempt = '0', settings: object = {}): Promise<Response> {
    const route = `/proxy/rollout/rollout-0/attempt/${attempt}/mode/train/openai/v1/chat/completions`
    return this.send('POST', route, { messages: [{ role: 'user', content }], ...settings })
  }

  async reward(value: number, attempt = '0'): Promise<number> {
    const path = `/api/rollouts/rollout-0/attempt/${attempt}/events`
    return (await this.send('POST', path, { event_type: 'reward', data: { value } })).status
  }

  get rewards(): number[] {
    return this.fake.trained().map(({ reward }) => reward)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fake.close()
  }
}

test('trains the calls of a rollout that has ended, with the last reward before that', async () => {
  await using gateway = await start([{ input: {}, group: 'g' }])
  await gateway.claim()
  await gateway.ask('one')
  await gateway.ask('two')
  await gateway.reward(0.25)
  await gateway.reward(0.5)
  expect(gateway.rewards).toEqual([])
  expect(await gateway.patch({ state: 'succeeded' })).toBe(200)
  await gateway.reward(1)
  expect(gateway.rewards).toEqual([0.5, 0.5])
  const [call] = gateway.fake.trained()
  expect(call).toMatchObject({ rolloutId: 'rollout-0', group: 'g' })
  expect(String.fromCodePoint(...(call?.ids ?? []))).toBe('{"content":"ok"}')
})

test('fills a missing reward with 0, however the rollout ended', async () => {
  await using gateway = await start()
  await gateway.claim()
  await gateway.ask('one')
  await gateway.patch({ state: 'failed', error_message: 'no' })
  expect(gateway.rewards).toEqual([0])
})

test('trains only the last attempt, and accepts another one also after the end', async () => {
  await using gateway = await start()
  await gateway.claim()
  await gateway.ask('one')
  expect(await gateway.patch({ last_attempt_id: '1' })).toBe(200)
  await gateway.ask('again', '1')
  await gateway.reward(1, '1')
  await gateway.patch({ state: 'succeeded' })
  expect(gateway.rewards).toEqual([1])
  await gateway.patch({ last_attempt_id: '0-void' })
  expect(gateway.rewards).toEqual([])
})

test('trains the last of several calls with the same prompt, and calls whose caller has disconnected', async () => {
  await using gateway = await start()
  await gateway.claim()
  await gateway.ask('same')
  await gateway.ask('same')
  await gateway.patch({ state: 'succeeded' })
  await gateway.ask('late')
  expect(gateway.fake.trained()).toHaveLength(2)
})

test('refuses as the gateway does', async () => {
  await using gateway = await start()
  expect((await gateway.ask('stream', '0', { stream: true })).status).toBe(400)
  expect((await fetch(`${gateway.fake.url}/api/rollouts?state_in=queuing`)).status).toBe(401)
  expect(await gateway.patch({ reward: 1 })).toBe(422)
  expect(await gateway.patch({ state: 'succeeded' })).toBe(409)
  expect(await gateway.claim()).toBe(200)
  expect(await gateway.claim()).toBe(409)
  gateway.fake.remove('rollout-0')
  expect(await gateway.patch({ state: 'failed' })).toBe(404)
  expect(await gateway.reward(1)).toBe(404)
  expect((await gateway.ask('gone')).status).toBe(404)
})

test('answers 429 with Retry-After while it is paused', async () => {
  await using gateway = await start()
  await gateway.claim()
  const over = gateway.fake.pause(100, 7)
  const answer = await gateway.ask('one')
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '7'])
  await over
  expect((await gateway.ask('one')).status).toBe(200)
})

test('lists rollouts by their states, the oldest first', async () => {
  await using gateway = await start([{ input: 1 }, { input: 2, isTrain: false }, { input: 3 }])
  await gateway.claim()
  const list = async (query: string): Promise<unknown> =>
    (await gateway.send('GET', `/api/rollouts?${query}`)).json()
  expect(await list('state_in=queuing&limit=1')).toMatchObject([
    { rollout_id: 'rollout-1', input: 2, is_train: false, config: { timeout_seconds: 3600 } },
  ])
  expect(await list('state_in=queuing&state_in=running')).toHaveLength(3)
})

test('fails a fraction of the requests, the same ones for the same seed', () => {
  const outcomes = (seed: number): unknown[] => {
    const faults = randomFaults(0.1, seed)
    return Array.from({ length: 1000 }, (_, n) => faults({} as never, n))
  }
  const first = outcomes(1)
  expect(outcomes(1)).toEqual(first)
  expect(outcomes(2)).not.toEqual(first)
  expect(first.filter((fault) => fault !== undefined).length).toBeGreaterThan(60)
  expect(new Set(first)).toEqual(new Set([undefined, 'reset', 'lost answer', 503]))
})
