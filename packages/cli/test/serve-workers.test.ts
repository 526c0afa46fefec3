import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'
import { startOsmosis } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'

it('serves a workflow in worker processes as in its own, and ends with them on SIGTERM', async () => {
  const command = startOsmosis([
    'serve',
    echo,
    '--port',
    '0',
    '--workers',
    '2',
    '--no-trajectories',
  ])
  const [, url = ''] = await command.printed(/Listening on (\S+)/)
  const health = await fetch(`${url}/health`)
  expect(await health.json()).toMatchObject({
    status: 'ok',
    concurrency: { max_concurrent: 4, queued: 0, running: 0 },
  })
  const sent = await osmosis(['rollout', 'send', url, '-d', 'data/words.jsonl'])
  expect(sent).toMatchObject({ code: 0 })
  command.child.kill('SIGTERM')
  const { code, stdout } = await command.finished
  expect(stdout).toBe(
    `Serving EchoWorkflow of ${echo} (EchoGrader)\nListening on ${url} (open, no key asked for)\n`,
  )
  expect(code).toBe(0)
})

it('a server is not started with an entrypoint that no worker can load', async () => {
  const folder = temporaryWorkspace({})
  writeFileSync(path.join(folder, 'broken.ts'), 'throw new Error("half an entrypoint")\n')
  const args = ['serve', path.join(folder, 'broken.ts'), '--port', '0']
  const [inProcess, inWorkers] = await Promise.all([
    startOsmosis(args).finished,
    startOsmosis([...args, '--workers', '2']).finished,
  ])
  expect(inWorkers.code).toBe(1)
  expect(inWorkers.stderr).toMatch(/^error: Cannot load the entrypoint .*half an entrypoint/s)
  expect(inProcess.stderr.split('\n')[0]).toBe(inWorkers.stderr.split('\n')[0])
})

it('flags that do not fit together are refused', async () => {
  const loop = startOsmosis([
    'serve',
    'rollouts/agent-loops/adder.ts',
    '--port',
    '0',
    '--workers',
    '1',
  ])
  const workflow = startOsmosis(['serve', echo, '--port', '0', '--workers', '1', '--register'])
  expect(await osmosis(['serve', echo, '--stall-timeout', '5'])).toMatchObject({
    code: 1,
    stderr:
      'error: --stall-timeout and --worker-memory are limits of workers: pass --workers as well.\n',
  })
  expect((await osmosis(['serve', echo, '--workers', '0'])).stderr).toMatch(/at least 1, or auto/)
  expect(await workflow.finished).toMatchObject({ code: 1 })
  expect(await loop.finished).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--workers is for workflows'),
  })
})
