import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { describe, expect, it, onTestFinished } from 'vitest'

import { withPrograms, startRedis } from '../kit/index.ts'
import { root, listeningUrl } from './command.ts'
import {
  podOf,
  read,
  logsOf,
  serviceOf,
  endsCleanly,
  machine,
  password,
  shown,
} from './distributed.ts'

const demo = 'examples/distributed/demo.ts'

withPrograms('redis-server').it(
  'kubernetes.yaml has a server and a worker that take part in its Redis, find nothing wrong with it, and end cleanly',
  async () => {
    expect(await logsOf(podOf)).not.toMatch(/append-only|evicts keys/)
  },
)

describe.each([
  { name: 'docker-compose.yml', part: serviceOf },
  { name: 'kubernetes.yaml', part: podOf },
])('$name', ({ part }) => {
  it('leaves time for running rollouts when it is stopped', () => {
    for (const { args, graceSeconds } of [part('front'), part('worker')]) {
      const drain = Number(args[args.indexOf('--drain-timeout') + 1])
      expect(drain).toBeGreaterThan(0)
      // Ten seconds are the default of `shutdownGraceSeconds`.
      expect(graceSeconds).toBeGreaterThan(drain + 10)
    }
  })
})

it.each(['front', 'worker'])('the %s has the same flags in both files', (name) => {
  const flagsOf = ({ args }: { args: readonly string[] }): string[] =>
    args.filter((word) => word.startsWith('--'))
  expect(flagsOf(serviceOf(name))).toEqual(flagsOf(podOf(name)))
})

it('the image leaves out what is not for others, keys above all', () => {
  const left = read('Dockerfile.dockerignore').split('\n')
  expect(read('docker-compose.yml')).toMatch(/^ {4}file: secrets\//m)
  expect(left).toEqual(expect.arrayContaining(['secrets/', '.env', '.git/', '**/node_modules/']))
})

it('the demo says what to install when Redis is missing', async () => {
  const options = { cwd: root, env: { PATH: '/nowhere' } }
  await expect(promisify(execFile)(process.execPath, [demo], options)).rejects.toMatchObject({
    code: 1,
    stderr:
      'error: The demo needs redis-server on PATH: apt-get install redis-server (Debian, Ubuntu), or brew install redis (macOS).\n',
  })
})

const withRedis = withPrograms('redis-server')

withRedis.it(
  'docker-compose.yml has a server and a worker that take part in its Redis, find nothing wrong with it, and end cleanly',
  { tags: 'nightly' },
  async () => {
    expect(await logsOf(serviceOf)).not.toMatch(/append-only|evicts keys/)
  },
)

withRedis.it(
  `the server and the worker of the guide run the rollouts of an evaluation`,
  { tags: 'nightly' },
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
  { tags: 'nightly', timeout: 600_000 },
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
)
