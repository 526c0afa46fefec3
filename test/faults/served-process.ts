import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'

const bin = path.resolve(import.meta.dirname, '../../packages/cli/src/bin.ts')
const run = promisify(execFile)

/** What `osmosis serve` serves, and how. */
export interface ServedOptions {
  readonly name: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Called when it has ended without being asked to, or with another code than 0. */
  readonly onTrouble: (what: string) => void
}

/** A real `osmosis serve` that is killed and started again, each time on the same port. */
export class ServedProcess {
  readonly port: number
  readonly #options: ServedOptions
  #child: ChildProcess | undefined
  #isListening = false
  /** Those that were asked to end. */
  readonly #asked = new WeakSet<ChildProcess>()

  constructor(port: number, options: ServedOptions) {
    this.port = port
    this.#options = options
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Resolves when it listens, and rejects when it ends before. */
  async start(): Promise<void> {
    const { args, env, name, onTrouble } = this.#options
    const all = [bin, 'serve', ...args, '--port', String(this.port)]
    const child = spawn(process.execPath, all, {
      cwd: import.meta.dirname,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    let log = ''
    const listening = Promise.withResolvers<void>()
    child.stdout.on('data', (data: Buffer) => {
      if (data.includes('Listening on')) listening.resolve()
    })
    child.stderr.on('data', (data: Buffer) => (log = (log + data.toString()).slice(-2000)))
    // Not 'exit': what it said last may be in the pipe still.
    child.once('close', (code, signal) => {
      this.#isListening = false
      listening.reject(new Error(`the server of ${name} did not start: ${log}`))
      if (this.#asked.has(child) && (code === 0 || signal === 'SIGKILL')) return
      onTrouble(`the server of ${name} ended with ${code ?? signal}: ${log}`)
    })
    await listening.promise
    this.#isListening = true
  }

  /** Ends it, waits until it has ended, and starts it again. */
  async restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await this.end(signal)
    await this.start()
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    this.#asked.add(child)
    this.#isListening = false
    const ended = once(child, 'close')
    child.kill(signal)
    await ended
  }

  /**
   * Ends the worker that the chance picks; false when there is none. A server that loses one while it
   * starts does not start.
   */
  async killWorker(chance: number): Promise<boolean> {
    const parent = this.#child?.pid
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,args='])
    const workers = stdout
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(
        ([, ppid, ...args]) => Number(ppid) === parent && args.join(' ').includes('worker-child'),
      )
    const [pid] = workers[Math.floor(chance * workers.length)] ?? []
    try {
      return this.#isListening && pid !== undefined && process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended by itself.
      return false
    }
  }
}

/**
 * A port that is free, and that no connection is given while its server is being started again: they
 * come from 32768 on.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    const server = createServer()
    const isFree = new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!(await isFree)) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
