import type { PolicyFlags } from '../choose-policy.ts'

/** Flags of `osmosis test`. */
export interface TestFlags extends PolicyFlags {
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
  interactive?: boolean
  row?: number
}
