// What the run of an agent costs after its migration, as a multiple of what it cost before: the same
// agent with one tool call, once with the framework's own client and once in a rollout. Both ask the
// same endpoint, taking turns.
//
//   npx -y pnpm@12 run bench frameworks [framework …]
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

import type { Round } from './agent-under-test.ts'
import { median, quantile, rounded } from './figures.ts'

const goal = 1
const rounds = 9
const chosen = process.argv.slice(2)
const frameworks = [
  'openai-agents',
  'strands',
  'ai-sdk',
  'langchain',
  'mastra',
  'google-adk',
  'pi',
].filter((name) => chosen.length === 0 || chosen.includes(name))

const endpoint = start('agent-endpoint.ts')
const [port] = (await once(endpoint, 'message')) as [number]
const url = `http://127.0.0.1:${port}/v1`

const rows: object[] = []
console.log('framework      way       before      after       ratio          goal')
for (const framework of frameworks) {
  const before = await startAgent(framework, 'before')
  const after = await startAgent(framework, 'after')
  for (const way of ['generate', 'stream'] as const) {
    const round: Round = { way, runs: 300, inFlight: 32 }
    // The first two rounds warm both up.
    const pairs: { before: number; after: number }[] = []
    for (let n = -2; n < rounds; n += 1) {
      const pair = { before: await cpuOf(before, round), after: await cpuOf(after, round) }
      if (n >= 0) pairs.push(pair)
    }
    const ratios = pairs.map((pair) => pair.after / pair.before)
    const row = {
      framework,
      way,
      beforeMs: rounded(median(pairs.map((pair) => pair.before))),
      afterMs: rounded(median(pairs.map((pair) => pair.after))),
      ratio: rounded(median(ratios)),
      // Half of the distance between the quartiles.
      spread: rounded((quantile(ratios, 0.75) - quantile(ratios, 0.25)) / 2),
      goal,
    }
    rows.push(row)
    console.log(
      [
        framework.padEnd(14),
        way.padEnd(9),
        `${row.beforeMs} ms`.padEnd(11),
        `${row.afterMs} ms`.padEnd(11),
        `${row.ratio} ± ${row.spread}`.padEnd(14),
        `≤ ${goal}`,
      ].join(' '),
    )
  }
  before.disconnect()
  after.disconnect()
}
endpoint.disconnect()
console.log(JSON.stringify({ node: process.version, rows }))

function start(file: string, args: readonly string[] = []): ChildProcess {
  const child = fork(path.join(import.meta.dirname, file), args)
  child.once('exit', (code) => {
    if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with code ${code}`)
  })
  return child
}

async function startAgent(framework: string, state: string): Promise<ChildProcess> {
  const agent = start('agent-under-test.ts', [framework, state, url])
  await once(agent, 'message')
  return agent
}

/** Milliseconds of CPU for one run. */
async function cpuOf(agent: ChildProcess, round: Round): Promise<number> {
  agent.send(round)
  const [cpu] = (await once(agent, 'message')) as [number]
  return cpu
}
