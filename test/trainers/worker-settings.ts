/** Ways to break the worker on purpose. */
export const waysToBreak = ['zeros', 'swaps', 'forgets', 'no reaping'] as const
export type WayToBreak = (typeof waysToBreak)[number]

/** What the worker is started with. */
export interface WorkerSettings {
  readonly url: string
  readonly apiKey: string
  readonly concurrency: number
  readonly watchSeconds: number
  readonly abandonedAfterSeconds: number
  readonly breaks: WayToBreak | undefined
}

/** What it prints when it works. */
export const worksAs = 'working'
