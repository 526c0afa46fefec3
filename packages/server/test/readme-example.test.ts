// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

import { expect, it } from 'vitest'

import { FakeController, post, temporaryFolder } from '../../../test/kit/index.ts'

it('the program in the README serves a rollout and ends on SIGTERM', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const program = /```ts\n([^]*?)```/.exec(readme)?.[1] ?? ''
  await using controller = await new FakeController().start()
  const artifactRoot = await temporaryFolder()
  const child = spawn(process.execPath, ['--input-type=module-typescript', '--eval', program], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: {
      ...process.env,
      ROLLOUT_PORT: '0',
      OSMOSIS_ROLLOUT_SERVER_API_KEY: 'server-key',
      _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: artifactRoot,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exit = once(child, 'exit')
  const [line] = (await once(child.stdout, 'data')) as [Buffer]

  const headers = { authorization: 'Bearer server-key' }
  const url = `${line.toString().trim()}/rollout`
  expect((await post(url, controller.rolloutBody(), headers)).status).toBe(202)
  expect(await controller.bodies()).toMatchObject([
    { status: 'success' },
    { status: 'success', sample: { reward: 1 } },
  ])
  child.kill('SIGTERM')
  expect(await exit).toStrictEqual([0, null])
  expect(await readdir(artifactRoot, { recursive: true })).toContain('r1/trajectory.json')
})
