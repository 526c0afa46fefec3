import { promisify } from 'node:util'

import type { FrontMessage, WorkerMessage } from '../protocol/worker-messages.ts'

type WatchMessage = Extract<FrontMessage, { type: 'watch' }>
/** What is said to a worker that is being watched. */
export type LaterMessage = Exclude<FrontMessage, WatchMessage>

/** The worker's end of the channel to its front. The process ends with it. */
export class FrontChannel {
  /** How the front watches this process: the first that it says. */
  readonly watched: Promise<WatchMessage>
  #take: ((message: LaterMessage) => void) | undefined
  readonly #waiting: LaterMessage[] = []

  constructor() {
    const { promise, resolve } = Promise.withResolvers<WatchMessage>()
    this.watched = promise
    process.on('message', (message: FrontMessage) => {
      if (message.type === 'watch') resolve(message)
      else if (this.#take) this.#take(message)
      else this.#waiting.push(message)
    })
    process.once('disconnect', () => process.exit())
  }

  /** Takes what comes, and what has come before. */
  onMessage(take: (message: LaterMessage) => void): void {
    this.#take = take
    for (const message of this.#waiting.splice(0)) take(message)
  }

  /**
   * Sends a message. When the front is gone nothing happens: so is this process, soon.
   *
   * @throws an error when the message cannot be cloned
   */
  post(message: WorkerMessage): void {
    if (process.connected) process.send?.(message, undefined, undefined, () => {})
  }

  /** Resolves when all that was sent so far is in the hands of the operating system. */
  async flushed(): Promise<void> {
    await send({ type: 'beat' })
  }

  /**
   * Sends a message, and resolves when it is in the hands of the operating system: the front reads
   * it whatever becomes of this process.
   */
  async written(message: WorkerMessage): Promise<void> {
    await send(message)
  }
}

const send = promisify((message: WorkerMessage, done: (error: Error | null) => void) =>
  process.send?.(message, undefined, undefined, done),
)
