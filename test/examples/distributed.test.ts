import { execFile, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { startRedis, withPrograms } from '@osmosis/testing/kit'
import { expect, it, onTestFinished } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'

import { commandLines } from '../repository/command-line.ts'
import { blocksOf } from '../repository/documents.ts'
import { listeningUrl, root, start } from './command.ts'

const demo = 'examples/distributed/demo.ts'
const withRedis = withPrograms('redis-server')

function read(name: string): string {
  return readFileSync(path.join(root, 'examples/distributed', name), 'utf8')
}

/** A container of a pod, or a service of Compose. */
interface Part {
  /** The words behind `osmosis`, or behind nothing of Redis. */
  readonly args: string[]
  /** Seconds until it is killed after it was told to end. */
  readonly graceSeconds: number
  readonly probes: readonly string[]
}

interface Probe {
  httpGet?: { path: string }
}

interface Manifest {
  kind: string
  metadata: { name: string }
  spec: {
    template: {
      spec: {
        terminationGracePeriodSeconds: number
        containers: [
          { args: string[]; startupProbe?: Probe; readinessProbe?: Probe; livenessProbe?: Probe },
        ]
      }
    }
  }
}

interface Compose {
  services: Record<string, { command: string[]; stop_grace_period?: string }>
}

const manifests = parseAllDocuments(read('kubernetes.yaml')).map(
  (document) => document.toJS() as Manifest,
)
const { services } = parse(read('docker-compose.yml')) as Compose

function podOf(name: string): Part {
  const named = manifests.find(
    ({ kind, metadata }) => kind !== 'Service' && metadata.name === `my-agent-${name}`,
  )
  if (named === undefined) throw new Error(`no pod of ${name}`)
  const { containers, terminationGracePeriodSeconds: graceSeconds } = named.spec.template.spec
  const [{ args, startupProbe, readinessProbe, livenessProbe }] = containers
  const probes = [startupProbe, readinessProbe, livenessProbe]
  return {
    args: oneByOne(args),
    graceSeconds,
    probes: probes.flatMap((probe) => probe?.httpGet?.path ?? []),
  }
}

function serviceOf(name: string): Part {
  const { command = [], stop_grace_period: grace = '' } = services[name] ?? {}
  return { args: oneByOne(command), graceSeconds: Number.parseInt(grace), probes: [] }
}

/** Flags and their values as words of their own. */
function oneByOne(words: readonly string[]): string[] {
  return words.flatMap((word) => /^(--[a-z-]+)=(.*)$/.exec(word)?.slice(1) ?? [word])
}

/** A command of the guide. */
function shown(name: 'serve' | 'worker' | 'eval'): string[] {
  const commands = blocksOf('docs/distributed.md', 'bash').flatMap(({ text }) => commandLines(text))
  const command = commands.find((line) => line.startsWith(`npx osmosis ${name} `)) ?? ''
  return command.split(' ').slice(2)
}

const password = 'the-password'

/** Gives commands that are written for other machines what they have there, and starts them here. */
function machine(redis: string): (args: readonly string[]) => ChildProcess {
  const state = mkdtempSync(path.join(tmpdir(), 'osmosis-distributed-'))
  onTestFinished(() => rmSync(state, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(path.join(state, name), text)
    return path.join(state, name)
  }
  const queueKeys = file('queue-keys', `${Buffer.alloc(32, 7).toString('base64')}\n`)
  const callerKeys = file('caller-keys', 'the-key\n')
  const here: Readonly<Record<string, string>> = {
    'rollouts/my-agent/main.ts': 'examples/rollouts/multiply-ai-sdk/main.ts',
    'rollouts/my-rollout/main.ts': 'examples/rollouts/multiply-ai-sdk/main.ts',
    'configs/eval/my-rollout.toml': 'examples/configs/eval/multiply-ai-sdk.toml',
    '0.0.0.0': '127.0.0.1',
    'redis://redis:6379': redis,
    'redis://my-agent-redis:6379': redis,
    'redis://127.0.0.1:6379': redis,
    '/run/secrets/queue-keys': queueKeys,
    '/run/secrets/queue/keys': queueKeys,
    'queue-keys': queueKeys,
    '/run/secrets/caller-keys': callerKeys,
    '/run/secrets/callers/keys': callerKeys,
    '9100': '0',
  }
  const env = { OSMOSIS_REDIS_PASSWORD: password, _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: state }
  return (args) => {
    const port = args[0] === 'serve' ? ['--port', '0'] : []
    const child = start('osmosis', [...args.map((arg) => here[arg] ?? arg), ...port], env)
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }
}

/** The Redis that `args` start, here. */
async function redisHere([program, ...args]: readonly string[]): Promise<string> {
  expect(program).toBe('redis-server')
  const pairs = Array.from({ length: args.length / 2 }, (_, pair) => [
    args[2 * pair]?.slice('--'.length),
    args[2 * pair + 1]?.replace('$(REDIS_PASSWORD)', password),
  ])
  const { url } = await startRedis({ config: Object.fromEntries(pairs) as Record<string, string> })
  return url
}

async function endsCleanly(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
}

withRedis.describe.each([
  { name: 'docker-compose.yml', part: serviceOf },
  { name: 'kubernetes.yaml', part: podOf },
])(`$name`, ({ part }) => {
  it('has a server and a worker that take part in its Redis, find nothing wrong with it, and end cleanly', async () => {
    const startHere = machine(await redisHere(part('redis').args))
    for (const name of ['front', 'worker']) {
      const { args, probes } = part(name)
      const child = startHere(args)
      let log = ''
      child.stderr?.on('data', (text: Buffer) => (log += text.toString()))
      const url = await listeningUrl(child)
      for (const probe of probes) expect((await fetch(url + probe)).status).toBe(200)
      await endsCleanly(child)
      expect(log).not.toMatch(/append-only|drops keys/)
    }
  })

  it('leaves time for what runs when it is told to end', () => {
    for (const { args, graceSeconds } of [part('front'), part('worker')]) {
      const drain = Number(args[args.indexOf('--drain-timeout') + 1])
      expect(drain).toBeGreaterThan(0)
      // Ten seconds are the default of `shutdownGraceSeconds`.
      expect(graceSeconds).toBeGreaterThan(drain + 10)
    }
  })
})

withRedis.it(`the server, the worker and the evaluation of the guide work together`, async () => {
  const { url } = await startRedis({ aof: true, config: { requirepass: password } })
  const startHere = machine(url)
  const front = startHere(shown('serve'))
  await listeningUrl(front)
  const worker = startHere(shown('worker'))
  const runs = mkdtempSync(path.join(tmpdir(), 'osmosis-runs-'))
  onTestFinished(() => rmSync(runs, { recursive: true }))
  const few = ['--limit', '2', '--no-preflight', '--output', runs]
  const evaluation = startHere([...shown('eval'), ...few])
  expect(await once(evaluation, 'exit')).toEqual([0, null])
  await endsCleanly(worker)
  await endsCleanly(front)
})

withRedis.it(`the demo of a queue kills a worker, and its account is complete`, async () => {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  expect(scripts['demo:distributed']).toBe(`node ${demo}`)
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [demo], { cwd: root })
  expect(stderr).toBe('')
  expect(stdout).toMatch(/: 100 rollouts have ended, and one worker is killed/)
  expect(stdout.match(/^demo-\d{3} {2}(?:success|failure) /gm)).toHaveLength(200)
  const again = Number(/^(\d+) were begun again/m.exec(stdout)?.[1])
  const failed = Number(/and (\d+) failed$/m.exec(stdout)?.[1])
  expect(again + failed).toBeGreaterThan(0)
  for (const [line] of stdout.matchAll(/^demo-\d{3} {2}failure .*$/gm)) {
    expect(line).toMatch(/: the worker was lost(?: after [12] model calls?)?; /)
  }
  expect(stdout).toContain('Nothing is missing, and nothing came twice.\n')
})

it('the image leaves out what is not for others, keys above all', () => {
  const left = read('Dockerfile.dockerignore').split('\n')
  expect(read('docker-compose.yml')).toMatch(/^ {4}file: secrets\//m)
  expect(left).toEqual(expect.arrayContaining(['secrets/', '.env', '.git/', '**/node_modules/']))
})

it('the demo says what to install where there is no Redis', async () => {
  const options = { cwd: root, env: { PATH: '/nowhere' } }
  await expect(promisify(execFile)(process.execPath, [demo], options)).rejects.toMatchObject({
    code: 1,
    stderr:
      'error: The demo needs redis-server on PATH: apt-get install redis-server (Debian, Ubuntu), or brew install redis (macOS).\n',
  })
})
