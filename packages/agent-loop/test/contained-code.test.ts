// @module-tag slow
import { expect, it, onTestFinished } from 'vitest'

import { FakeTrainer, post, startServerProcess } from '../../../test/kit/index.ts'

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
  onTestFinished(async () => trainer[Symbol.asyncDispose]())
  const child = await startServerProcess(new URL('child-app.ts', import.meta.url))
  const init = async (rolloutId: string, metadata: object): Promise<Response> =>
    post(`${child.url}/v1/rollout/init`, trainer.initBody({ rollout_id: rolloutId, metadata }))
  return { child, trainer, init }
}

it('loops and tools that harm the process fail only their own rollouts, and the error names the line', async () => {
  const { init, trainer, child } = await startChild()
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
  expect((await fetch(`${child.url}/health`)).status).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exit).toStrictEqual([0, null])
})

it('an error that belongs to no rollout fails the running rollouts, and ends the server with 1', async () => {
  const { init, trainer, child } = await startChild()
  await Promise.all(healthy.map(async (id) => init(id, { outlasts: 1 })))
  child.kill('SIGUSR2')

  expect(await child.exit).toStrictEqual([1, null])
  const results = await trainer.results(healthy.length)
  expect(new Set(results.map((result) => result['status']))).toStrictEqual(new Set(['ERROR']))
  expect(new Set(results.map((result) => result['error_message']))).toStrictEqual(
    new Set(['rollout server shut down']),
  )
})
