import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { FakeController, post } from '@osmosis/testing/kit'

/** A rollout server in a process of its own, see `child-server.ts`. */
export interface Child extends AsyncDisposable {
  url: string
  controller: FakeController
  /** Exit code and signal. */
  exit: Promise<unknown[]>
  kill(signal: NodeJS.Signals): void
  post(overrides?: Record<string, unknown>): Promise<Response>
  /** What it has logged so far. */
  log(): Record<string, unknown>[]
  /** Resolves when a line with this in its message has been logged. */
  logged(message: string): Promise<void>
}

export interface ChildOptions {
  drainSeconds?: number
  outboxDir?: string
  /** Where its rollouts come from; default: a new one that ends with the child. */
  controller?: FakeController
}

export async function startChild(options: ChildOptions = {}): Promise<Child> {
  const { drainSeconds = 30, outboxDir } = options
  const controller = options.controller ?? (await new FakeController().start())
  const script = fileURLToPath(new URL('./child-server.ts', import.meta.url))
  const child = spawn(process.execPath, [script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      DRAIN_SECONDS: String(drainSeconds),
      ...(outboxDir === undefined ? {} : { OUTBOX_DIR: outboxDir }),
    },
  })
  const exit = once(child, 'exit')
  let log = ''
  child.stderr.on('data', (data: Buffer) => (log += data.toString()))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = line.toString().trim()
  return {
    url,
    controller,
    exit,
    kill: (signal) => void child.kill(signal),
    post: (overrides) => post(`${url}/rollout`, controller.rolloutBody(overrides)),
    log: () =>
      log
        .split('\n')
        .filter((text) => text !== '')
        .map((text) => JSON.parse(text) as Record<string, unknown>),
    logged: async (message) => {
      while (!log.includes(JSON.stringify(message).slice(1, -1))) {
        await once(child.stderr, 'data')
      }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exit
      if (options.controller === undefined) await controller[Symbol.asyncDispose]()
    },
  }
}
