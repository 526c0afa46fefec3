import { promisify } from 'node:util'

import { residentBytes } from './exit-report.ts'
import type { ParentMessage, WorkerMessage } from './worker-messages.ts'

type WatchMessage = Extract<ParentMessage, { type: 'watch' }>
/** A message to a worker that is being watched. */
export type LaterMessage = Exclude<ParentMessage, WatchMessage>

/**
 * The worker's end of the channel to its parent. The process exits when it closes. It is hidden from user
 * code, which could otherwise send the parent a message that is meant for a process manager.
 */
export class ParentChannel {
  /** The parent's first message: how it watches this process. */
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
      else if (message.type === 'leave') process.exit()
      else this.#waiting.push(message)
    })
    process.once('disconnect', () => process.exit())
  }

  /** Keeps the process alive, which is the initial state. */
  hold(): void {
    process.channel?.ref()
  }

  /** Lets the process exit when its code waits for something that can never happen. */
  letGo(): void {
    process.channel?.unref()
  }

  /** Passes on all messages, including those that have already arrived. */
  onMessage(take: (message: LaterMessage) => void): void {
    this.#take = take
    for (const message of this.#waiting.splice(0)) take(message)
  }

  /**
   * Sends a message. Does nothing when the parent has exited, because this process exits soon as well.
   *
   * @throws an error when the message cannot be cloned
   */
  post(message: WorkerMessage): void {
    if (process.connected) this.#send?.(message, undefined, undefined, () => {})
  }

  /** Reports that the event loop turns, and the resources of the process. */
  beat(): void {
    this.post(toBeat())
  }

  /** Resolves when the operating system has all messages so far. */
  async flushed(): Promise<void> {
    await this.written(toBeat())
  }

  /**
   * Sends a message, and resolves when the operating system has it: the parent then reads it even if this
   * process exits.
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
