import { readFileSync } from 'node:fs'
import path from 'node:path'

import { noRetries } from './model-endpoint.ts'
import { osmosis, temporaryFolder, type Finished } from './osmosis.ts'

interface Figures {
  mean: number | null
  pass_rate: number
  pass_at_k?: unknown
}

/** What `--output` gets. */
export interface ResultFile {
  config: Record<string, unknown>
  summary: Record<string, unknown> & { eval_fns: Record<string, Figures> }
  rows: { row_index: number; runs: Record<string, unknown>[] }[]
  model_summaries?: (Record<string, unknown> & { eval_fns: Record<string, Figures> })[]
}

/** An evaluation that has ended. */
export interface Evaluation extends Finished {
  results: ResultFile
}

/** Reads what `--output` got. JSON.parse takes no NaN. */
export function readResults(file: string): ResultFile {
  return JSON.parse(readFileSync(file, 'utf8')) as ResultFile
}

/** Runs an evaluation and reads what it wrote. */
export async function evaluate(...args: string[]): Promise<Evaluation> {
  const output = path.join(temporaryFolder(), 'made/on/demand.json')
  const finished = await osmosis(['eval', 'loop', ...args, '--output', output], noRetries)
  return { ...finished, results: readResults(output) }
}
