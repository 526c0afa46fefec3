import type { LoopFlags } from '../loop-flags.ts'

/** Flags of `osmosis eval loop`. */
export interface EvalLoopFlags extends LoopFlags {
  /** `<file>:<export>` of each eval function. */
  evalFn?: readonly string[]
  n: number
  batchSize: number
  passThreshold: number
  baselinePolicy?: string
  baselineModel?: string
  baselineBaseUrl?: string
  baselineApiKeyEnv?: string
}
