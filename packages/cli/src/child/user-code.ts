import { once } from 'node:events'
import { PassThrough } from 'node:stream'

import { OsmosisError } from '@osmosis/core'
import {
  startUserCode,
  type UserCodeOptions,
  type UserCodeProcess,
  type WorkerEntrypoint,
} from '@osmosis/server/child'

import { addToProcess, runWithin, runsUserCodeHere } from '../command/command-context.ts'

/** What runs user code: usually in a process of its own. */
export interface UserCodeRun extends Omit<UserCodeOptions, 'args'> {
  /** What `load` gets; plain data. The module gets it as JSON, as its first argument. */
  readonly order: unknown
  /** What the module passes to `runWorker`: imported only where it runs in this process. */
  readonly loader: () => Promise<UserCodeLoader>
}

/** Loads user code by an order of the command. */
type UserCodeLoader = (order: never) => Promise<WorkerEntrypoint>

/**
 * Runs user code in a child process, which cannot harm the command. A command with `userCode: 'here'` runs it in its own
 * process.
 */
export function runUserCode({ order, loader, ...options }: UserCodeRun): UserCodeProcess {
  if (runsUserCodeHere()) return new UserCodeHere({ order, loader, ...options })
  return startUserCode({ ...options, args: [JSON.stringify(order)] })
}

type End = Awaited<UserCodeProcess['ended']>

/** User code that takes part in the process of the command, with the streams, variables and folder of its own. */
class UserCodeHere implements UserCodeProcess {
  readonly ready: Promise<{ readonly facts: unknown }>
  readonly ended: Promise<End>
  readonly output = [new PassThrough(), new PassThrough()] as const
  readonly #name: string
  readonly #leaving = new AbortController()
  readonly #loaded = Promise.withResolvers<WorkerEntrypoint>()
  readonly #end = Promise.withResolvers<End>()

  constructor({ order, loader, name, cwd, env, isSilent = false }: UserCodeRun) {
    this.#name = name
    const [stdout, stderr] = this.output
    const own = { ...env, OSMOSIS_ROLLOUT_SERVER_API_KEY: undefined }
    if (isSilent) for (const stream of this.output) stream.resume()
    const { signal } = this.#leaving
    this.ready = this.#loaded.promise.then(({ facts = null }) => ({
      facts: structuredClone(facts),
    }))
    this.ready.catch(() => {})
    this.ended = this.#end.promise
    const life = async (): Promise<number> => {
      try {
        // User code reads `process.env`.
        addToProcess(own)
        const load = await loader()
        this.#loaded.resolve(await load(structuredClone(order) as never))
        if (!signal.aborted) await once(signal, 'abort')
        await (await this.#loaded.promise).close?.()
      } catch (error) {
        this.#loaded.reject(error)
      }
      return 0
    }
    runWithin({ stdout, stderr, cwd, env: own, signal, userCode: 'here' }, life).then(
      () => this.#finish(),
      () => this.#finish(),
    )
  }

  async ask(question: unknown): Promise<unknown> {
    const { answer } = await this.#loaded.promise
    if (answer === undefined || this.#leaving.signal.aborted) {
      throw new OsmosisError('worker_lost', `${this.#name} answers no question.`)
    }
    return structuredClone(await answer(structuredClone(question)))
  }

  async close(closeMs: number): Promise<void> {
    this.#leaving.abort()
    const late = setTimeout(() => this.#finish(), closeMs)
    await this.ended
    clearTimeout(late)
  }

  kill(): void {
    this.#leaving.abort()
  }

  #finish(): void {
    for (const stream of this.output) stream.end()
    this.#end.resolve({ how: 'has ended', reason: 'exit' })
  }
}
