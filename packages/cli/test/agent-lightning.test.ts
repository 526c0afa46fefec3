import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { tokenAnswer } from '../../../test/kit/index.ts'
import { FakeAgentLightning } from '../../../test/kit/trainers/index.ts'
import { inWorkspace, start, type StartedCommand } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'

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

inWorkspace()

async function startWorker(
  fake: FakeAgentLightning,
  ...flags: readonly string[]
): Promise<StartedCommand> {
  const command = start(workerArgs(fake, flags), { OSMOSIS_TRAINER_KEY: apiKey })
  await command.printed(/Taking rollouts from/)
  return command
}

function workerArgs(fake: FakeAgentLightning, flags: readonly string[]): string[] {
  return ['worker', echo, '--agent-lightning', fake.url, ...flags]
}

it(
  'runs the tasks of the gateway, and ends on SIGTERM with the exit code 0',
  { tags: 'slow' },
  async () => {
    const fake = await gateway(20)
    const flags = ['--concurrency', '8']
    const worker = startOsmosis(workerArgs(fake, flags), { OSMOSIS_TRAINER_KEY: apiKey })
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
  },
)

it('runs them in a process of its own, and shows how it is', { tags: 'slow' }, async () => {
  const fake = await gateway(5)
  const worker = await startWorker(fake, '--workers', '1', '--port', '0')
  const [, url = ''] = await worker.printed(/Listening on (\S+)/)
  await fake.allEnded()
  const health = (await fetch(`${url}/health`)).json()
  expect(await health).toMatchObject({ status: 'ok', lifecycle: { accepting_rollouts: true } })
  expect(await (await fetch(`${url}/metrics`)).text()).toContain('osmosis_')
  expect((await worker.end()).code).toBe(0)
  expect(fake.trained()).toHaveLength(5)
})

it('ends with one line when the key is wrong', async () => {
  const fake = await gateway(1)
  const args = ['worker', echo, '--agent-lightning', fake.url, '--log-level', 'warn']
  const { code, stderr } = await start(args, { OSMOSIS_TRAINER_KEY: 'another' }).finished
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `error: The gateway of Agent Lightning at ${fake.url} refuses the key (401): set apiKey, or OSMOSIS_TRAINER_KEY for \`osmosis worker\`.\n`,
  })
  const without = await start(args).finished
  expect(without.stderr).toContain('wants a key (401)')
})

it('cancels rollouts that exceed the drain timeout on shutdown, and reports them to the gateway', async () => {
  const asked = Promise.withResolvers<void>()
  const fake = await gateway(3, { before: asked.resolve, answers: false })
  const worker = await startWorker(fake, '--drain-timeout', '0')
  await asked.promise
  await fake.until(() => fake.rollouts.every(({ state }) => state === 'running'))
  expect((await worker.end()).code).toBe(0)
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
