import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

import type { TinkerUsage } from './tinker-options.ts'

/**
 * What a training used of a service. It is kept in a file beside the saved states, where each use is a line: states do not
 * have what was used after them, and the service bills that, too.
 */
export class UsageLedger {
  #total: TinkerUsage = { promptTokens: 0, sampledTokens: 0, trainedTokens: 0 }
  #file: string | undefined

  get total(): TinkerUsage {
    return this.#total
  }

  /** Keeps it beside a state from now on, with what a process before has used. */
  keepBeside(state: string): void {
    if (this.#file !== undefined) return
    const own = this.#total
    this.#file = path.join(path.dirname(state), 'usage.jsonl')
    if (existsSync(this.#file)) {
      for (const line of readFileSync(this.#file, 'utf8').split('\n')) this.#count(usedIn(line))
    }
    mkdirSync(path.dirname(this.#file), { recursive: true })
    this.#write(own)
  }

  add(used: Partial<TinkerUsage>): void {
    this.#count(used)
    if (this.#file !== undefined) this.#write(used)
  }

  #count({ promptTokens = 0, sampledTokens = 0, trainedTokens = 0 }: Partial<TinkerUsage>): void {
    this.#total = {
      promptTokens: this.#total.promptTokens + promptTokens,
      sampledTokens: this.#total.sampledTokens + sampledTokens,
      trainedTokens: this.#total.trainedTokens + trainedTokens,
    }
  }

  /** At once, because a kill must not lose it, and behind a line that one cut off. */
  #write(used: Partial<TinkerUsage>): void {
    if (this.#file !== undefined) appendFileSync(this.#file, `\n${JSON.stringify(used)}`)
  }
}

/** Nothing for a line that a kill cut off. */
function usedIn(line: string): Partial<TinkerUsage> {
  try {
    return JSON.parse(line) as Partial<TinkerUsage>
  } catch {
    return {}
  }
}
