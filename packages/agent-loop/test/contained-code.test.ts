import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { FakeTrainer, post } from '@osmosis/testing/kit'
import { expect, it, onTestFinished } from 'vitest'

const script = fileURLToPath(new URL('child-app.ts', import.meta.url))
const place = String.raw`\(at \S*test/child-app\.ts:\d+:\d+\)`
const harms = {
  exit: 'the agent loop called process\\.exit\\(0\\)',
  timer: 'the agent loop threw an error that nobody caught: thrown from a timer',
  emitter: 'the agent loop threw an error that nobody caught: thrown from a listener',
  rejection: 'the agent loop left a rejection unhandled: forgotten await',
}
const healthy = Array.from({ length: 50 }, (_, index) => `healthy ${index}`)

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

it.each(Object.entries(harms))(
  'a loop that harms the process by %s fails its own rollout alone, with the place',
  async (harm, text) => {
    const { init, trainer, url, kill, exit } = await startChild()
    await Promise.all(healthy.map(async (id) => init(id, { waits: 'for the harm' })))
    await init('harmful', { harm })
    const results = await trainer.results(healthy.length + 1)

    const message = expect.stringMatching(new RegExp(`^${text} ${place}$`)) as unknown
    const failed = results.filter(({ status }) => status !== 'COMPLETED')
    expect(failed).toMatchObject([
      { rollout_id: 'harmful', status: 'ERROR', error_message: message },
    ])
    expect(results.map((result) => result['rollout_id'])).toHaveLength(healthy.length + 1)
    expect((await fetch(`${url}/health`)).status).toBe(200)
    kill('SIGTERM')
    expect(await exit).toStrictEqual([0, null])
  },
)

it('tools that harm the process are no tools, and the server goes on', async () => {
  const { init, url } = await startChild()
  const refused = await init('harmful', { toolsHarm: 'exit' })

  expect(refused.status).toBe(500)
  expect(await refused.text()).toMatch(new RegExp(harms.exit))
  expect((await fetch(`${url}/health`)).status).toBe(200)
})

it('an error of no known rollout fails what runs, and ends the server with 1', async () => {
  const { init, trainer, kill, exit } = await startChild()
  await Promise.all(healthy.map(async (id) => init(id, { waits: 'for ever' })))
  kill('SIGUSR2')

  expect(await exit).toStrictEqual([1, null])
  const results = await trainer.results(healthy.length)
  expect(new Set(results.map((result) => result['status']))).toStrictEqual(new Set(['ERROR']))
  expect(new Set(results.map((result) => result['error_message']))).toStrictEqual(
    new Set(['rollout server shut down']),
  )
})
