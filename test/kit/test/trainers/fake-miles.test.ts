import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { FakeMiles, type FakeMilesOptions } from '../../trainers/index.ts'
import { tokenAnswer } from '../../index.ts'
import { expect, onTestFinished, test } from 'vitest'

interface RunBody {
  readonly base_url: string
  readonly [key: string]: unknown
}

/** A rollout server that does with each `POST /run` what a test says. */
async function startServer(
  run: (body: RunBody, response: ServerResponse) => Promise<unknown>,
): Promise<string> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as RunBody
      run(body, response).then(
        (answer) => answer !== undefined && response.end(JSON.stringify(answer)),
        (error: unknown) => response.writeHead(500).end(String(error)),
      )
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void (server.closeAllConnections(), server.close()))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function ask({ base_url: url }: RunBody, change: object = {}): Promise<string> {
  const messages = [{ role: 'user', content: '?' }]
  const response = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages, ...change }),
  })
  expect(response.status).toBe(200)
  return response.text()
}

async function start(options: Partial<FakeMilesOptions> = {}): Promise<FakeMiles> {
  const model: FakeMilesOptions['model'] = (body) => tokenAnswer(body, { content: 'ok' })
  const miles = await FakeMiles.start({ model, retryMs: 5, ...options })
  onTestFinished(async () => miles.close())
  return miles
}

const completed = { reward: 1, exit_status: 'completed', eval_report: {}, agent_metrics: {} }

test('trains what each session recorded, with the reward that its rollout was answered', async () => {
  const bodies: RunBody[] = []
  const miles = await start({ maxSeqLen: 9 })
  const server = await startServer(async (body) => {
    bodies.push(body)
    await ask(body)
    expect(await ask(body, { stream: true })).toMatch(
      /^data: \{.*"delta":.*\}\n\ndata: \[DONE\]\n\n$/,
    )
    return completed
  })
  await miles.generate(server, [{ question: 'a', model: 'column' }], { attempts: 2 })
  expect(bodies[0]).toStrictEqual({
    question: 'a',
    base_url: `${miles.url}/sessions/g1-1/v1`,
    model: 'openai/model',
    sampling_params: { temperature: 1 },
    agent_kwargs: {},
    max_seq_len: 9,
    session_server_instance_id: 'instance-1',
    session_server_id: new URL(miles.url).host,
  })
  const trained = miles
    .trained()
    .map(({ group, rolloutId, reward }) => `${group} ${rolloutId} ${reward}`)
  expect(trained.toSorted()).toStrictEqual(['g1 g1-1 1', 'g1 g1-1 1', 'g1 g1-2 1', 'g1 g1-2 1'])
})

test.each([
  { name: 'an answer without a reward', answer: { exit_status: 'failed' } },
  { name: 'no answer', answer: undefined },
])('makes $name a 0, unless its filter drops the group', async ({ answer }) => {
  const server = await startServer(async (body, response) => {
    await ask(body)
    if (body['question'] === 'fine') return completed
    if (answer === undefined) response.destroy()
    return answer
  })
  for (const filter of [false, true]) {
    const miles = await start({ filter, retries: 0 })
    await miles.generate(server, [{ question: 'fine' }, { question: 'not' }])
    const rewards = miles.trained().map(({ group, reward }) => `${group} ${reward}`)
    expect(rewards.toSorted()).toStrictEqual(filter ? ['g1 1'] : ['g1 1', 'g2 0'])
  }
})

test('trains nothing of a rollout without a model call', async () => {
  const miles = await start()
  const server = await startServer(async () => completed)
  expect(await miles.generate(server, [{}])).toMatchObject([{ answer: completed, calls: [] }])
  expect(miles.trained()).toStrictEqual([])
})

test('repeats a request in the same session until it is answered, and records all model calls', async () => {
  let asked = 0
  const miles = await start()
  const server = await startServer(async (body) => {
    await ask(body)
    if ((asked += 1) < 3) throw new Error('not yet')
    return completed
  })
  const [rollout] = await miles.generate(server, [{}])
  expect(rollout?.calls).toHaveLength(3)
  expect(rollout?.answer).toStrictEqual(completed)
})

test('answers 404 for a session whose rollout has ended', async () => {
  const bodies: RunBody[] = []
  const miles = await start()
  const server = await startServer(async (body) => (bodies.push(body), completed))
  await miles.generate(server, [{}])
  const late = await fetch(`${bodies[0]?.base_url}/chat/completions`, {
    method: 'POST',
    body: '{}',
  })
  expect(late.status).toBe(404)
})
