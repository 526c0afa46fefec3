import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { withPrograms } from '../kit/index.ts'
import { describe, expect, it } from 'vitest'

import { root } from './command.ts'
import { podOf, read, logsOf, serviceOf } from './distributed.ts'

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
