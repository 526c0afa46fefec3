import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { tokenAnswer } from '../../../test/kit/index.ts'
import { FakeAgentLightning } from '../../../test/kit/trainers/index.ts'
import { inWorkspace, run, start } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'

inWorkspace()

const key = { OSMOSIS_TRAINER_KEY: 'gateway-key' }

/** A gateway whose policy gets better: the first version answers wrongly, and one prompt has no answer. */
async function gateway(): Promise<{
  fake: FakeAgentLightning
  train: (version: number) => Promise<void>
}> {
  let version = 0
  const fake = await FakeAgentLightning.start({
    apiKey: key.OSMOSIS_TRAINER_KEY,
    model: (body) => {
      const content = version === 0 ? 'no idea' : 'hello'
      return { ...tokenAnswer(body, { content }), model: `policy-${version}` }
    },
  })
  onTestFinished(async () => fake.close())
  return {
    fake,
    async train(next) {
      version = next
      const rows = ['hello', 'hello', 'goodbye', 'goodbye']
      fake.enqueue(rows.map((prompt) => ({ input: { prompt, answer: 'hello' } })))
      await fake.allEnded()
    },
  }
}

it('shows what a worker of another trainer sees, step by version of the policy', async () => {
  const { fake, train } = await gateway()
  const folder = path.join(temporaryFolder(), 'lightning')
  const args = [
    'worker',
    'rollouts/echo/main.ts',
    '--agent-lightning',
    fake.url,
    '--record',
    folder,
  ]
  const worker = start(args, key)
  await worker.printed(/Taking rollouts from/)
  await train(0)
  await train(1)
  // A process that continues knows rows and versions.
  expect((await worker.end()).code).toBe(0)
  const next = start(args, key)
  await next.printed(/Taking rollouts from/)
  await train(1)
  await train(2)
  expect((await next.end()).code).toBe(0)

  const shown = await run(['eval', 'show', folder])
  expect(shown.stdout).toContain('lightning  finished · 3 steps')
  expect(shown.stdout).toContain('Model     Agent Lightning')
  expect(shown.stdout).toMatch(/^ {3}1 {3}0\.000 .*\n {3}2 {3}1\.000 .*\n {3}3 {3}1\.000 /m)
  const row = await run(['eval', 'show', folder, '0', '--json'])
  expect(JSON.parse(row.stdout)).toMatchObject({
    question: expect.stringMatching(/^(?:hello|goodbye)$/),
    steps: [
      { step: 1, passed: 0, ended: 2 },
      { step: 2, passed: 4, ended: 4 },
      { step: 3, passed: 2, ended: 2 },
    ],
  })
  const step = await run(['eval', 'show', path.join(folder, 'runs/step-0002'), '1.1'])
  expect(step.stdout).toContain('policy-1')
})

it('has the step of a worker that was killed, and continues', { tags: 'slow' }, async () => {
  const { fake, train } = await gateway()
  const folder = path.join(temporaryFolder(), 'lightning')
  const args = ['worker', 'rollouts/echo/main.ts', '--agent-lightning', fake.url]
  const killed = startOsmosis([...args, '--record', folder], key)
  await killed.printed(/Taking rollouts from/)
  await train(0)
  const rollouts = path.join(folder, 'runs/step-0001/events.jsonl')
  await expect.poll(() => readFileSync(rollouts, 'utf8').split('\n')).toHaveLength(5)
  killed.child.kill('SIGKILL')
  await killed.finished
  const journal = path.join(folder, 'training.jsonl')
  expect(readFileSync(journal, 'utf8')).not.toContain('"kind":"step"')
  appendFileSync(journal, '{"kind":"st')

  const next = start([...args, '--record', folder], key)
  await next.printed(/Taking rollouts from/)
  await train(1)
  expect((await next.end()).code).toBe(0)
  const shown = await run(['eval', 'show', folder])
  expect(shown.stderr).toBe('')
  expect(shown.stdout).toMatch(/^ {3}1 {3}0\.000 .*\n {3}2 {3}1\.000 /m)
})

it('leaves no process behind where it cannot begin', async () => {
  const { fake } = await gateway()
  const record = path.join(temporaryFolder(), 'file')
  writeFileSync(record, '')
  const processes = (): number =>
    process.getActiveResourcesInfo().filter((kind) => kind === 'ProcessWrap').length
  const before = processes()
  const args = ['worker', 'rollouts/echo/main.ts', '--agent-lightning', fake.url, '--workers', '1']
  expect((await run([...args, '--record', record], key)).code).toBe(1)
  await expect.poll(processes).toBe(before)
})

it('is refused where no rollout of a workflow runs', async () => {
  const queue = await run([
    'serve',
    'rollouts/echo/main.ts',
    '--redis',
    'redis://127.0.0.1:1',
    '--record',
    'x',
  ])
  expect(queue.stderr).toContain('--record is a flag of osmosis worker')
})
