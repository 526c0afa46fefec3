import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'

import { startRedis } from '../kit/index.ts'
import { commandLines } from '../repository/command-line.ts'
import { blocksOf } from '../repository/documents.ts'
import { listeningUrl, root, start } from './command.ts'

export function read(name: string): string {
  return readFileSync(path.join(root, 'examples/distributed', name), 'utf8')
}

/** A container of a pod, or a service of Compose. */
export interface Part {
  /** The arguments of `osmosis`, or the whole command of Redis. */
  readonly args: string[]
  /** Time between the signal to stop and the kill. Seconds. */
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

export function podOf(name: string): Part {
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

export function serviceOf(name: string): Part {
  const { command = [], stop_grace_period: grace = '' } = services[name] ?? {}
  return { args: oneByOne(command), graceSeconds: Number.parseInt(grace), probes: [] }
}

/** Flags and their values as separate arguments. */
function oneByOne(words: readonly string[]): string[] {
  return words.flatMap((word) => /^(--[a-z-]+)=(.*)$/.exec(word)?.slice(1) ?? [word])
}

/** A command of the guide. */
export function shown(name: 'serve' | 'worker'): string[] {
  const commands = blocksOf('docs/operating/distributed.md', 'bash').flatMap(({ text }) =>
    commandLines(text),
  )
  const command = commands.find((line) => line.startsWith(`npx osmosis ${name} `)) ?? ''
  return command.split(' ').slice(2)
}

export const password = 'the-password'

/** Starts commands that are written for other machines here, with local paths and addresses. */
export function machine(redis: string): (args: readonly string[]) => ChildProcess {
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
    '0.0.0.0': '127.0.0.1',
    'redis://redis:6379': redis,
    'redis://my-agent-redis:6379': redis,
    'redis://127.0.0.1:6379': redis,
    '/run/secrets/caller-keys': callerKeys,
    '/run/secrets/callers/keys': callerKeys,
    '9100': '0',
    // One process is enough to see that they are started and ended.
    auto: '1',
  }
  const env = {
    OSMOSIS_REDIS_PASSWORD: password,
    OSMOSIS_QUEUE_KEY_FILE: queueKeys,
    _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: state,
  }
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

export async function endsCleanly(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
}

/** Starts Redis, the server and the worker of an example, ends each of them, and resolves with their logs. */
export async function logsOf(part: (name: string) => Part): Promise<string> {
  let log = ''
  const startHere = machine(await redisHere(part('redis').args))
  for (const name of ['front', 'worker']) {
    const { args, probes } = part(name)
    const child = startHere(args)
    child.stderr?.on('data', (text: Buffer) => (log += text.toString()))
    const url = await listeningUrl(child)
    for (const probe of probes) expect((await fetch(url + probe)).status).toBe(200)
    await endsCleanly(child)
  }
  return log
}
