import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { json } from 'node:stream/consumers'

import { expect, it, onTestFinished } from 'vitest'

import { tokenAnswer } from '../../../test/kit/index.ts'
import { FakeAgentLightning } from '../../../test/kit/trainers/index.ts'
import { inWorkspace, start } from './in-process.ts'

inWorkspace()

const apiKey = 'gateway-key'

/** A collector of logs, and the states of rollouts that it received. */
async function collector(): Promise<{ url: string; states: string[] }> {
  const states: string[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const sent = JSON.stringify(await json(request))
      states.push(...(sent.match(/(?<="status","value":\{"stringValue":")\w+/g) ?? []))
      response.end('{}')
    })()
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, states }
}

/** Metrics of leases, outboxes and worker processes. */
const ofServers = /^osmosis_(?:lease|outbox|worker)/
/** The same, and those of outcomes for a trainer. */
const ofOthers = /^osmosis_(?:lease|outbox|worker|outcome)/

/** The metrics of the example dashboard that a process does not show, but for those that it cannot have. */
async function missingIn(text: string, exempt: RegExp): Promise<string[]> {
  const file = path.resolve(import.meta.dirname, '../../../examples/observability/dashboard.json')
  const wanted = (await readFile(file, 'utf8')).match(/\b(?:osmosis|process|nodejs)_\w+/g) ?? []
  const names = new Set(wanted.map((name) => name.replace(/_bucket$/, '')))
  const shown = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name))
  return [...names].filter((name) => !exempt.test(name) && !shown.has(name))
}

it('an agent loop has the metrics of the dashboard, too', async () => {
  const loop = start(['serve', '-m', 'rollouts/agent-loops/adder.ts:agentLoop', '--port', '0'])
  const [, listening = ''] = await loop.printed(/(http:\/\/[\d.:]+)/)
  const text = await (await fetch(`${listening}/metrics`)).text()
  expect(await missingIn(text, ofOthers)).toEqual([])
  expect((await loop.end()).code).toBe(0)
})

it('counts the rollouts of a trainer as a server does, and reports who has them', async () => {
  const fake = await FakeAgentLightning.start({
    apiKey,
    model: (body) => tokenAnswer(body, { content: 'hello' }),
  })
  onTestFinished(async () => fake.close())
  const { url, states } = await collector()
  const args = ['worker', 'rollouts/echo/main.ts', '--agent-lightning', fake.url, '--port', '0']
  const worker = start(args, {
    OSMOSIS_TRAINER_KEY: apiKey,
    OSMOSIS_ROLLOUT_OTLP_ENDPOINT: url,
    OSMOSIS_ROLLOUT_SERVER_ID: 'worker-1',
  })
  const [, listening = ''] = await worker.printed(/Listening on (\S+)/)
  fake.enqueue(Array.from({ length: 3 }, () => ({ input: { prompt: 'hello', answer: 'hello' } })))
  await fake.allEnded()
  await expect
    .poll(async () => (await fetch(`${listening}/metrics`)).text())
    .toMatch(/^osmosis_outcomes_total\{outcome="acknowledged"\} 3$/m)
  const text = await (await fetch(`${listening}/metrics`)).text()
  expect(text).toMatch(
    /^osmosis_rollouts_ended_total\{outcome="success",category="none",phase="grading"\} 3$/m,
  )
  expect(text).toMatch(/^osmosis_policy_calls_total\{outcome="stop"\} 3$/m)
  expect(text).toMatch(/^osmosis_rollout_phase_seconds_count\{phase="workflow"\} 3$/m)
  expect(await missingIn(text, ofServers)).toEqual([])
  expect(text).toMatch(/^osmosis_outcomes_pending 0$/m)
  expect((await worker.end()).code).toBe(0)
  expect(states.filter((state) => state === 'queued')).toHaveLength(3)
  expect(new Set(states)).toEqual(new Set(['queued', 'running', 'grading', 'success']))
})
