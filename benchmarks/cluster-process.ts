import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

import type { Held, Load, LoadResult } from './training-cluster.ts'

/** The server that gets the rollouts. */
interface Served {
  readonly url: string
}

/** A training cluster in a separate process. */
export class Cluster {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  static async start(): Promise<Cluster> {
    const child = fork(path.join(import.meta.dirname, 'training-cluster.ts'))
    await once(child, 'message')
    return new Cluster(child)
  }

  /** Resolves when all rollouts have ended. */
  async drive({ url }: Served, load: Omit<Load, 'url'>): Promise<LoadResult> {
    this.#child.send({ ...load, url } satisfies Load)
    const [result] = (await once(this.#child, 'message')) as [LoadResult]
    return result
  }

  /** Resolves when all rollouts wait for their last answer. */
  async hold({ url }: Served, load: Omit<Load, 'url' | 'hold'>): Promise<Held> {
    this.#child.send({ ...load, url, hold: true } satisfies Load)
    const [held] = (await once(this.#child, 'message')) as [Held]
    return held
  }

  /** Sends that answer. */
  async release(): Promise<LoadResult> {
    this.#child.send('release')
    const [result] = (await once(this.#child, 'message')) as [LoadResult]
    return result
  }

  end(): void {
    this.#child.disconnect()
  }
}
