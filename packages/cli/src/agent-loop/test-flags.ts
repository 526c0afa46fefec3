import type { LoopFlags } from './loop-flags.ts'

/** Flags of `osmosis test`. */
export interface TestFlags extends LoopFlags {
  interactive?: boolean
  row?: number
}
