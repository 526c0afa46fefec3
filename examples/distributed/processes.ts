// Starts the processes of the demo, and ends them with it.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import path from 'node:path'

/** A process of the demo. */
export interface Started {
  readonly child: ChildProcess
  /** The lines that it has logged, each a JSON document. */
  readonly log: readonly LogLine[]
  /** The match of the pattern that its output was searched for at its start. */
  readonly found: RegExpExecArray
}

/** A line of the log of a server or a worker. */
export type LogLine = { readonly msg: string } & Readonly<Record<string, unknown>>

const root = path.resolve(import.meta.dirname, '../..')
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

/** Starts Redis with the settings of a queue: no acknowledged write is lost, and no key is evicted. */
export async function startRedis(folder: string): Promise<string> {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter)
  if (!folders.some((one) => existsSync(path.join(one, 'redis-server')))) {
    throw new Error(
      'The demo needs redis-server on PATH: apt-get install redis-server (Debian, Ubuntu), or brew install redis (macOS).',
    )
  }
  const port = await freePort()
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
  const safe = ['--appendonly', 'yes', '--save', '', '--maxmemory-policy', 'noeviction']
  await start('redis-server', [...place, ...safe], /Ready to accept connections/)
  return `redis://127.0.0.1:${port}`
}

/** Starts the `osmosis` command, and waits until it has printed that it is ready. */
export async function startOsmosis(args: readonly string[], ready: RegExp): Promise<Started> {
  const command = path.join(root, 'node_modules/.bin/osmosis')
  return start(command, args, ready)
}

/** Ends a process, and waits until it has exited. */
export async function stop({ child }: Started): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

async function start(command: string, args: readonly string[], ready: RegExp): Promise<Started> {
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  const log: LogLine[] = []
  let printed = ''
  let half = ''
  const found = Promise.withResolvers<RegExpExecArray>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
    const match = ready.exec(printed)
    if (match !== null) found.resolve(match)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const lines = (half + text).split('\n')
    half = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('{')) log.push(JSON.parse(line) as LogLine)
      else printed += `${line}\n`
    }
  })
  child.once('error', found.reject)
  child.once('close', () => {
    running.delete(child)
    found.reject(new Error(`${path.basename(command)} ${args[0]} ended:\n${printed}`))
  })
  return { child, log, found: await found.promise }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
