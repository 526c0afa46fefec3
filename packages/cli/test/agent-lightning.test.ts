import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { FakeAgentLightning } from '@osmosis/testing'
import { tokenAnswer } from '@osmosis/testing/kit'
import { expect, it, onTestFinished } from 'vitest'

import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'

const apiKey = 'gateway-key'
const echo = 'rollouts/echo/main.ts'

async function gateway(
  rows: number,
  { before = () => {}, answers = true } = {},
): Promise<FakeAgentLightning> {
  const fake = await FakeAgentLightning.start({
    apiKey,
    model: async (body) => {
      before()
      if (!answers) await new Promise(() => {})
      return tokenAnswer(body, { content: 'hello' })
    },
  })
  onTestFinished(async () => fake.close())
  fake.enqueue(
    Array.from({ length: rows }, () => ({
      input: { prompt: 'hello', answer: 'hello' },
    })),
  )
  return fake
}

async function startWorker(
  fake: FakeAgentLightning,
  ...flags: readonly string[]
): Promise<RunningCommand> {
  const args = ['worker', echo, '--agent-lightning', fake.url, ...flags]
  const command = startOsmosis(args, { OSMOSIS_TRAINER_KEY: apiKey })
  await command.printed(/Taking rollouts from/)
  return command
}

it('runs what the gateway hands out, and ends on SIGTERM with the exit code 0', async () => {
  const fake = await gateway(20)
  const worker = await startWorker(fake, '--concurrency', '8', '--log-format', 'json')
  await fake.allEnded()
  worker.child.kill('SIGTERM')
  const { code, stdout, stderr } = await worker.finished
  expect(code).toBe(0)
  expect(stdout).toBe(
    `Running EchoWorkflow of ${echo} (EchoGrader), 8 at a time\nTaking rollouts from Agent Lightning at ${fake.url}\n`,
  )
  expect(stderr).toContain('"rewarded":20')
  expect(stderr).not.toContain(apiKey)
  expect(fake.trained().map(({ reward }) => reward)).toEqual(Array.from({ length: 20 }, () => 1))
})

it('runs them in processes of its own, and shows how it is', async () => {
  const fake = await gateway(5)
  const worker = await startWorker(fake, '--workers', '2', '--port', '0')
  const [, url = ''] = await worker.printed(/Listening on (\S+)/)
  await fake.allEnded()
  const health = (await fetch(`${url}/health`)).json()
  expect(await health).toMatchObject({ status: 'ok', lifecycle: { accepting_rollouts: true } })
  expect(await (await fetch(`${url}/metrics`)).text()).toContain('osmosis_')
  worker.child.kill('SIGTERM')
  expect((await worker.finished).code).toBe(0)
  expect(fake.trained()).toHaveLength(5)
})

it('ends with one line when the key is wrong', async () => {
  const fake = await gateway(1)
  const args = ['worker', echo, '--agent-lightning', fake.url, '--log-level', 'warn']
  const { code, stderr } = await startOsmosis(args, { OSMOSIS_TRAINER_KEY: 'another' }).finished
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `error: The gateway of Agent Lightning at ${fake.url} refuses the key (401): set apiKey, or OSMOSIS_TRAINER_KEY for \`osmosis worker\`.\n`,
  })
  const without = await startOsmosis(args).finished
  expect(without.stderr).toContain('wants a key (401)')
})

it('cancels on SIGTERM what has not ended in time, and tells the gateway', async () => {
  const asked = Promise.withResolvers<void>()
  const fake = await gateway(3, { before: asked.resolve, answers: false })
  const worker = await startWorker(fake, '--drain-timeout', '0')
  await asked.promise
  await fake.until(() => fake.rollouts.every(({ state }) => state === 'running'))
  worker.child.kill('SIGTERM')
  expect((await worker.finished).code).toBe(0)
  expect(fake.rollouts.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed'])
  expect(fake.trained()).toEqual([])
})

it('reads rows with a function of the user', async () => {
  const fake = await gateway(0)
  fake.enqueue([{ input: { task: 'hello', solution: 'hello' } }])
  const rows = path.join(temporaryFolder(), 'rows.ts')
  writeFileSync(
    rows,
    `export const rows = ({ task, solution }: Record<string, string>) => ({
      messages: [{ role: 'user', content: task }],
      label: solution,
      metadata: {},
    })`,
  )
  await startWorker(fake, '--rows', rows)
  await fake.allEnded()
  expect(fake.trained()).toMatchObject([{ reward: 1 }])
})
