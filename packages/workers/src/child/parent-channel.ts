import { promisify } from 'node:util'

import type { ParentMessage, WorkerMessage } from '../protocol/worker-messages.ts'
import { residentBytes } from './exit-report.ts'

type WatchMessage = Extract<ParentMessage, { type: 'watch' }>
/** What is said to a worker that is being watched. */
export type LaterMessage = Exclude<ParentMessage, WatchMessage>

/**
 * The worker's end of the channel to its parent. The process ends with it. User code does not see it: a
 * program that reports to a process manager that it is ready would send that to the parent.
 */
export class ParentChannel {
  /** How the parent watches this process: its first message. */
  readonly watched: Promise<WatchMessage>
  #take: ((message: LaterMessage) => void) | undefined
  readonly #waiting: LaterMessage[] = []
  readonly #send = process.send?.bind(process)

  constructor() {
    Object.assign(process, { send: undefined, disconnect: undefined })
    const { promise, resolve } = Promise.withResolvers<WatchMessage>()
    this.watched = promise
    process.on('message', (message: ParentMessage) => {
      if (message.type === 'watch') resolve(message)
      else if (this.#take) this.#take(message)
      else this.#waiting.push(message)
    })
    process.once('disconnect', () => process.exit())
  }

  /** Keeps the process alive, as it does at first. */
  hold(): void {
    process.channel?.ref()
  }

  /** Lets the process end with code that waits for what can never come. */
  letGo(): void {
    process.channel?.unref()
  }

  /** Takes what comes, and what has come before. */
  onMessage(take: (message: LaterMessage) => void): void {
    this.#take = take
    for (const message of this.#waiting.splice(0)) take(message)
  }

  /**
   * Sends a message. When the parent has ended nothing happens: this process ends soon, too.
   *
   * @throws an error when the message cannot be cloned
   */
  post(message: WorkerMessage): void {
    if (process.connected) this.#send?.(message, undefined, undefined, () => {})
  }

  /** Says that the event loop turns, and what the process takes. */
  beat(): void {
    this.post(toBeat())
  }

  /** Resolves when all that was sent so far is in the hands of the operating system. */
  async flushed(): Promise<void> {
    await this.written(toBeat())
  }

  /**
   * Sends a message, and resolves when the operating system has it: the parent then reads
   * it even if this process ends.
   */
  async written(message: WorkerMessage): Promise<void> {
    await promisify((done: (error: Error | null) => void) => {
      this.#send?.(message, undefined, undefined, done)
    })()
  }
}

function toBeat(): WorkerMessage {
  const { user, system } = process.cpuUsage()
  const cpuSeconds = (user + system) / 1e6
  return { type: 'beat', residentBytes: residentBytes() ?? 0, cpuSeconds }
}
