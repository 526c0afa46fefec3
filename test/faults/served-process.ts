import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/** The command. */
export const bin = path.resolve(import.meta.dirname, '../../packages/cli/src/bin.ts')
const run = promisify(execFile)
const mostTries = 20

/** How a program is started and named. */
export interface ProgramOptions {
  /** Name in messages, after "the": `server of loops`. */
  readonly name: string
  /** Script and arguments. */
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** What it prints when it is ready. */
  readonly ready: string
  /** Called when it has exited unexpectedly, or with another code than 0. */
  readonly onTrouble: (what: string) => void
}

/** A process that is killed and started again. */
export class Program {
  readonly #options: ProgramOptions
  #child: ChildProcess | undefined
  #isUp = false
  /** Processes that `end` has signalled. */
  readonly #signalled = new WeakSet<ChildProcess>()

  constructor(options: ProgramOptions) {
    this.#options = options
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Whether it is ready, and was not signalled to exit. */
  get isUp(): boolean {
    return this.#isUp
  }

  /**
   * Resolves when it is ready, and rejects when it exits before. Retries while its port is taken by a
   * connection of another process, for which the system may choose the same number.
   */
  async start(): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#startOnce()
      } catch (error) {
        if (tries === mostTries || !isPortTaken(error)) throw error
        await sleep(500)
      }
    }
  }

  async #startOnce(): Promise<void> {
    const { args, env, name, ready, onTrouble } = this.#options
    const child = spawn(process.execPath, args, {
      cwd: import.meta.dirname,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    let log = ''
    const starting = Promise.withResolvers<void>()
    const listen = (data: Buffer): void => {
      log = (log + data.toString()).slice(-2000)
      if (log.includes(ready)) starting.resolve()
    }
    child.stdout.on('data', listen)
    child.stderr.on('data', listen)
    // Not 'exit', because its last output may still be in the pipe.
    child.once('close', (code, signal) => {
      const wasUp = this.#isUp
      this.#isUp = false
      starting.reject(new Error(`the ${name} did not start: ${log}`))
      if (this.#signalled.has(child) ? code === 0 || signal === 'SIGKILL' : !wasUp) return
      onTrouble(`the ${name} ended with ${code ?? signal}: ${log}`)
    })
    await starting.promise
    this.#isUp = true
  }

  /** Sends a signal that does not end it. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal)
  }

  /** Ends it, waits until it has ended, and starts it again. */
  async restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await this.end(signal)
    await this.start()
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    this.#signalled.add(child)
    this.#isUp = false
    const ended = once(child, 'close')
    child.kill(signal)
    await ended
  }
}

/** Options of {@link ServedProcess}. */
type ServedOptions = Omit<ProgramOptions, 'ready'>

/** A real `osmosis serve`, each time on the same port. */
export class ServedProcess extends Program {
  readonly port: number

  constructor(port: number, options: ServedOptions) {
    const { name, args } = options
    super({
      ...options,
      name: `server of ${name}`,
      args: [bin, 'serve', ...args, '--port', String(port)],
      ready: 'Listening on',
    })
    this.port = port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /**
   * Kills the worker that the chance picks; false without a worker. A server that is starting is spared,
   * because it fails to start when it loses a worker.
   */
  async killWorker(chance: number): Promise<boolean> {
    const parent = this.pid
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,args='])
    const workers = stdout
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(
        ([, ppid, ...args]) => Number(ppid) === parent && args.join(' ').includes('worker-child'),
      )
    const [pid] = workers[Math.floor(chance * workers.length)] ?? []
    try {
      return this.isUp && pid !== undefined && process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended by itself.
      return false
    }
  }
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && /is used by another program|EADDRINUSE/.test(error.message)
}
