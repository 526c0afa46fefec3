import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { onTestFinished } from 'vitest'

import { freePort } from '../free-port.ts'
import { missingPrograms } from '../with-programs.ts'
import type { TlsCertificates } from './tls-certificates.ts'

/** How a {@link RedisServer} is started. */
export interface RedisServerOptions {
  /** Whether acknowledged writes survive a kill. Default: false. */
  readonly aof?: boolean
  /** Files with which it speaks TLS only. Default: no TLS. */
  readonly tls?: TlsCertificates
  /** More settings, as in redis.conf. */
  readonly config?: Readonly<Record<string, string>>
  /** Receives the function that ends it. Default: it ends with the test. */
  readonly keep?: (end: () => Promise<void>) => void
}

/** A real redis-server on a loopback port, with a folder of its own. */
export interface RedisServer extends AsyncDisposable {
  /** `redis://127.0.0.1:<port>`, or `rediss:`. */
  readonly url: string
  readonly port: number
  /** Kills it, as a power failure would. */
  kill(): Promise<void>
  /** Restarts it on the same port with the same folder, and with other settings if there are any. */
  restart(config?: Readonly<Record<string, string>>): Promise<void>
  /** Has it stand still, and continue. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Kills it and removes its folder. */
  stop(): Promise<void>
}

/** The program that is tested: `OSMOSIS_REDIS_SERVER` is the path of another one, as of Valkey. */
export function redisProgram(): string {
  return process.env['OSMOSIS_REDIS_SERVER'] || 'redis-server'
}

/** @throws Error when redis-server is not installed */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  if (redisProgram() === 'redis-server' && missingPrograms('redis-server').length > 0) {
    throw new Error(
      'These tests need redis-server on PATH: `apt-get install -y redis-server`, or `brew install redis`.',
    )
  }
  const { aof = false, tls, config = {}, keep = onTestFinished } = options
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-redis-'))
  const port = await freePort()
  const settings = {
    port: String(port),
    bind: '127.0.0.1',
    dir: folder,
    save: '',
    appendonly: aof ? 'yes' : 'no',
    // With a sync each second, acknowledged writes may be lost while the disk is busy.
    appendfsync: 'always',
    ...(tls === undefined
      ? {}
      : {
          port: '0',
          'tls-port': String(port),
          'tls-ca-cert-file': tls.ca,
          'tls-cert-file': tls.cert,
          'tls-key-file': tls.key,
        }),
    ...config,
  }
  let running = await start(settings)
  const kill = async (): Promise<void> => {
    const { exitCode, signalCode } = running
    if (exitCode !== null || signalCode !== null) return
    const exit = once(running, 'exit')
    running.kill('SIGKILL')
    await exit
  }
  const stop = async (): Promise<void> => {
    await kill()
    await rm(folder, { recursive: true, force: true })
  }
  keep(stop)
  return {
    url: `${tls === undefined ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
    port,
    kill,
    async restart(changed = {}) {
      await kill()
      running = await start({ ...settings, ...changed })
    },
    signal: (signal) => void running.kill(signal),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/** Resolves when it accepts connections. */
async function start(settings: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const child = spawn(redisProgram(), args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let log = ''
  const ready = Promise.withResolvers<void>()
  child.stdout.on('data', (data: Buffer) => {
    log += data.toString()
    if (log.includes('Ready to accept connections')) ready.resolve()
  })
  child.once('exit', () => ready.reject(new Error(`redis-server ended: ${log}`)))
  await ready.promise
  return child
}
