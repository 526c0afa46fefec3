import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { startRedis, withPrograms } from '../kit/index.ts'
import { expect, onTestFinished } from 'vitest'

import { listeningUrl, root } from './command.ts'
import { endsCleanly, machine, password, logsOf, serviceOf, shown } from './distributed.ts'

const demo = 'examples/distributed/demo.ts'
const withRedis = withPrograms('redis-server')

withRedis.it(
  'docker-compose.yml has a server and a worker that take part in its Redis, find nothing wrong with it, and end cleanly',
  async () => {
    expect(await logsOf(serviceOf)).not.toMatch(/append-only|evicts keys/)
  },
)

withRedis.it(
  `the server and the worker of the guide run the rollouts of an evaluation`,
  async () => {
    const { url: redis } = await startRedis({ aof: true, config: { requirepass: password } })
    const startHere = machine(redis)
    const front = startHere(shown('serve'))
    const url = await listeningUrl(front)
    const worker = startHere(shown('worker'))
    const runs = mkdtempSync(path.join(tmpdir(), 'osmosis-runs-'))
    onTestFinished(() => rmSync(runs, { recursive: true }))
    const config = 'examples/configs/eval/multiply-ai-sdk.toml'
    const few = ['--server', url, '--limit', '2', '--output', runs]
    const evaluation = startHere(['eval', 'run', config, ...few])
    expect(await once(evaluation, 'exit')).toEqual([0, null])
    await endsCleanly(worker)
    await endsCleanly(front)
  },
)

withRedis.it(
  `the demo of a queue kills a worker, and its account is complete`,
  async () => {
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    expect(scripts['demo:distributed']).toBe(`node ${demo}`)
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [demo], { cwd: root })
    expect(stderr).toBe('')
    expect(stdout).toMatch(/: 100 rollouts have ended, and one worker is killed/)
    expect(stdout.match(/^demo-\d{3} {2}(?:success|failure) /gm)).toHaveLength(200)
    const again = Number(/^(\d+) were started again/m.exec(stdout)?.[1])
    const failed = Number(/and (\d+) failed$/m.exec(stdout)?.[1])
    expect(again + failed).toBeGreaterThan(0)
    for (const [line] of stdout.matchAll(/^demo-\d{3} {2}failure .*$/gm)) {
      expect(line).toMatch(/: the worker was lost(?: after [12] model calls?)?; /)
    }
    expect(stdout).toContain('Nothing is missing, and nothing came twice.\n')
  },
  600_000,
)
