// What the call costs that ends a long conversation, as a multiple of the same bytes sent by a bare
// HTTP client, which writes the request, reads the answer and checks nothing. Both in one run, taking
// turns. The conversation is given as frameworks give it: new message objects for each call.
//
//   npx -y pnpm@12 run bench conversations
import { fork } from 'node:child_process'
import path from 'node:path'

import { RolloutContext } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { Agent, request } from 'undici'

import { median, rounded } from './figures.ts'

const goal = 1.3
const rounds = 15
const endpoint = fork(path.join(import.meta.dirname, 'streaming-endpoint.ts'), {
  env: { ...process.env, ANSWER_CHUNKS: '20', LATENCY_MS: '1' },
})
const port = await new Promise<number>((resolve) => {
  endpoint.once('message', (message) => resolve(Number(message)))
})
const url = `http://127.0.0.1:${port}/v1`
const agent = new Agent()

const rows: object[] = []
for (const { turns, bytes } of [
  { turns: 40, bytes: 200_000 },
  { turns: 400, bytes: 2_000_000 },
  { turns: 2000, bytes: 2_000_000 },
]) {
  const conversation = conversationOf(turns, bytes)
  const samples = { bare: [] as number[], ours: [] as number[], first: [] as number[] }
  for (let round = 0; round < rounds; round += 1) {
    samples.bare.push(await cpuOf(async () => askBare(copied(conversation))))
    const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url })
    const policy = context.policy('main')
    // Everything but the last two messages was part of an earlier request, as in any conversation.
    samples.first.push(
      await cpuOf(async () => policy.complete({ messages: copied(conversation.slice(0, -2)) })),
    )
    samples.ours.push(await cpuOf(async () => policy.complete({ messages: copied(conversation) })))
  }
  const [bare, ours, first] = [median(samples.bare), median(samples.ours), median(samples.first)]
  const row = {
    turns,
    bytes,
    bareCpu: rounded(bare),
    cpu: rounded(ours),
    ratio: rounded(ours / bare),
    ratioOfFirst: rounded(first / bare),
    goal,
  }
  rows.push(row)
  console.log(
    `${String(turns).padStart(4)} turns, ${bytes / 1000} KB: ${row.cpu} ms CPU for the next call, ` +
      `${row.ratio} times bare (goal: at most ${goal}); ${row.ratioOfFirst} when none of it was seen before`,
  )
}
console.log(JSON.stringify({ node: process.version, rows }))
process.exit()

function conversationOf(turns: number, bytes: number): ChatMessage[] {
  const text = 'The page says "so much", and\nit continues: é. '
  const length = Math.floor(bytes / turns / 2)
  const long = text.repeat(Math.ceil(length / text.length)).slice(0, length)
  return Array.from({ length: turns }, (_, turn): ChatMessage[] => {
    const id = `call_${turn}`
    const call = { name: 'read', arguments: JSON.stringify({ page: turn, why: long.slice(0, 80) }) }
    return [
      {
        role: 'assistant',
        content: `${turn}: ${long}`,
        tool_calls: [{ id, type: 'function', function: call }],
      },
      { role: 'tool', tool_call_id: id, content: `${turn}: ${long}` },
    ]
  }).flat()
}

/** The same texts in other objects. */
function copied(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.map((message) => ({
    ...message,
    ...(message.tool_calls && {
      tool_calls: message.tool_calls.map((call) => ({ ...call, function: { ...call.function } })),
    }),
  }))
}

async function askBare(messages: readonly ChatMessage[]): Promise<void> {
  const { body } = await request(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'osmosis-rollout', stream: true, messages }),
    dispatcher: agent,
  })
  await body.text()
}

async function cpuOf(act: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  await act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
