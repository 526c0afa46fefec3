import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { tokenAnswer } from '../../../test/kit/index.ts'
import { smallDisk, withSmallDisk } from '../../../test/kit/starved/small-disk.ts'
import { FakeAgentLightning } from '../../../test/kit/trainers/index.ts'
import { inWorkspace, run, start } from './in-process.ts'
import { endpoint } from './model-endpoint.ts'
import { osmosis, startOsmosis, type Finished } from './osmosis.ts'

inWorkspace()

const { it } = withSmallDisk

/** @param command - how the evaluation that fails is run; the one that completes it runs in this process */
async function endsAndCompletes(
  free: number,
  attempts: number,
  command: (args: readonly string[]) => Promise<Finished>,
): Promise<void> {
  const disk = smallDisk()
  disk.fill(free)
  const config = ['configs/eval/echo.toml', '--policy', 'policies/echo.ts']
  const where = ['--output', path.join(disk.folder, 'runs'), '--name', 'r']
  const args = ['eval', 'run', ...config, ...where, '--n', String(attempts)]
  const { code, stdout, stderr } = await command(args)
  expect(code).not.toBe(0)
  expect(code).not.toBe(13)
  expect(stderr).toContain(disk.folder)
  expect(stderr).toMatch(/^error: .*ENOSPC/m)
  if (code === 1) {
    expect(stderr).toMatch(/(?:bytes|KiB) are free in /)
    expect(stdout + stderr).toMatch(/Continue:? +osmosis eval run configs\/eval\/echo.toml/)
  }
  disk.enlarge()
  const again = await run(args)
  expect([again.code, again.stdout]).toEqual([
    0,
    expect.stringContaining(`${attempts * 3} of ${attempts * 4} have a reward`),
  ])
}

it('osmosis eval run whose disk is full ends, says what is full and how much is free, and completes later', () =>
  endsAndCompletes(0, 2, run))

// Wherever it fills up.
const filling =
  'osmosis eval run with %i KiB free ends, says what is full and how much is free, and completes later'
const fill = (free: number, attempts: number): Promise<void> =>
  endsAndCompletes(free, attempts, osmosis)
it.each([[80, 12]])(filling, { tags: 'nightly' }, fill)
it.each([
  [120, 12],
  [200, 30],
])(filling, { tags: 'nightly' }, fill)

it('osmosis serve with an outbox on a full disk refuses rollouts, and accepts them when there is room', async () => {
  const disk = smallDisk()
  const { url } = await endpoint((_, response) => response.writeHead(200).end())
  const outbox = path.join(disk.folder, 'outbox')
  const server = start(
    ['serve', 'rollouts/echo/main.ts', '--port', '0', '--outbox', outbox, '--no-auth'],
    { _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: path.join(disk.folder, 'artifacts') },
  )
  const [, server_url = ''] = await server.printed(/Listening on (\S+)/)
  const post = async (id: string): Promise<number> => {
    const body = {
      rollout_id: id,
      initial_messages: [{ role: 'user', content: 'hi' }],
      chat_completions_url: url,
      completion_callback_url: `${url}/completion`,
    }
    const headers = { 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    return (await fetch(`${server_url}/rollout`, init)).status
  }
  disk.fill()
  expect(await post('r1')).toBe(503)
  await server.printed(/ENOSPC/)
  expect((await fetch(`${server_url}/health`)).status).toBe(200)
  disk.empty()
  expect(await post('r2')).toBe(202)
  disk.fill()
  expect((await server.end()).code).toBe(0)
})

it(
  'osmosis worker --record on a full disk delivers its rollouts, says what is full, and ends',
  { tags: 'slow' },
  async () => {
    const disk = smallDisk()
    const fake = await FakeAgentLightning.start({
      apiKey: 'gateway-key',
      model: (body) => tokenAnswer(body, { content: 'hello' }),
    })
    onTestFinished(async () => fake.close())
    const record = path.join(disk.folder, 'record')
    const worker = startOsmosis(
      ['worker', 'rollouts/echo/main.ts', '--agent-lightning', fake.url, '--record', record],
      { OSMOSIS_TRAINER_KEY: 'gateway-key' },
    )
    await worker.printed(/Taking rollouts from/)
    disk.fill()
    fake.enqueue([{ input: { prompt: 'hello', answer: 'hello' } }])
    await fake.allEnded()
    await worker.printed(/is not recorded: Cannot write to .*ENOSPC.* are free in /)
    worker.child.kill('SIGTERM')
    // Whether the end of the record fits is chance.
    expect([0, 1]).toContain((await worker.finished).code)
  },
)

it('osmosis worker --record that cannot begin its record names the folder', async () => {
  const disk = smallDisk()
  disk.fill()
  const record = path.join(disk.folder, 'record')
  const args = ['worker', 'rollouts/echo/main.ts', '--agent-lightning', 'http://127.0.0.1:1']
  const key = { OSMOSIS_TRAINER_KEY: 'gateway-key' }
  const { code, stderr } = await run([...args, '--record', record], key)
  expect([code, stderr]).toEqual([1, expect.stringContaining(`Cannot write to ${record}`)])
})
