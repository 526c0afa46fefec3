import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { FakeTrainer, post } from '../../../test/kit/index.ts'
import { expect, it, onTestFinished } from 'vitest'

const script = fileURLToPath(new URL('child-app.ts', import.meta.url))
const place = String.raw`\(at \S*test/child-app\.ts:\d+:\d+\)`
const harms = {
  exit: 'the agent loop called process\\.exit\\(0\\)',
  timer: 'the agent loop threw an uncaught error: thrown from a timer',
  emitter: 'the agent loop threw an uncaught error: thrown from a listener',
  rejection: 'the agent loop left a rejection unhandled: forgotten await',
}
const healthy = Array.from({ length: 10 }, (_, index) => `healthy ${index}`)

async function startChild() {
  const trainer = await new FakeTrainer().start()
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'ignore'] })
  const exit = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await trainer[Symbol.asyncDispose]()
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = line.toString().trim()
  return {
    trainer,
    url,
    exit,
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    init: async (rolloutId: string, metadata: object) =>
      post(`${url}/v1/rollout/init`, trainer.initBody({ rollout_id: rolloutId, metadata })),
  }
}

it('loops and tools that harm the process fail only their own rollouts, and the error names the line', async () => {
  const { init, trainer, url, kill, exit } = await startChild()
  const names = Object.keys(harms)
  await Promise.all(healthy.map(async (id) => init(id, { outlasts: names.length })))
  const refused = await init('refused', { toolsHarm: 'exit' })
  expect([refused.status, await refused.text()]).toEqual([
    500,
    expect.stringMatching(new RegExp(harms.exit)),
  ])
  await Promise.all(names.map(async (harm) => init(harm, { harm })))
  const results = await trainer.results(healthy.length + names.length)

  for (const [harm, text] of Object.entries(harms)) {
    const message = expect.stringMatching(new RegExp(`^${text} ${place}$`)) as unknown
    const failed = results.filter((result) => result['rollout_id'] === harm)
    expect(failed).toMatchObject([{ status: 'ERROR', error_message: message }])
  }
  const completed = results.filter(({ status }) => status === 'COMPLETED')
  const ids = completed.map((result) => String(result['rollout_id']))
  expect(ids.toSorted()).toStrictEqual(healthy)
  expect(results).toHaveLength(healthy.length + names.length)
  expect((await fetch(`${url}/health`)).status).toBe(200)
  kill('SIGTERM')
  expect(await exit).toStrictEqual([0, null])
})

it('an error that belongs to no rollout fails the running rollouts, and ends the server with 1', async () => {
  const { init, trainer, kill, exit } = await startChild()
  await Promise.all(healthy.map(async (id) => init(id, { outlasts: 1 })))
  kill('SIGUSR2')

  expect(await exit).toStrictEqual([1, null])
  const results = await trainer.results(healthy.length)
  expect(new Set(results.map((result) => result['status']))).toStrictEqual(new Set(['ERROR']))
  expect(new Set(results.map((result) => result['error_message']))).toStrictEqual(
    new Set(['rollout server shut down']),
  )
})
