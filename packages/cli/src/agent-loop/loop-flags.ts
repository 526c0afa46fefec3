import type { PolicyFlags } from '../policy-options.ts'

/** Flags of every command that runs an agent loop on rows of a dataset. */
export interface LoopFlags extends PolicyFlags {
  module: string
  dataset: string
  limit?: number
  offset: number
  maxTurns: number
  maxTokens?: number
  temperature?: number
  output?: string
  log?: string
  quiet?: boolean
}
