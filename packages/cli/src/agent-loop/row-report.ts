import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import type { RowResult } from './row-runner.ts'

const longestError = 200

/** What a test run came to. */
export interface TestRun {
  readonly results: readonly RowResult[]
  /** Milliseconds. */
  readonly durationMs: number
  /** Why rows were left out; null when none were. */
  readonly stopReason: string | null
}

/** One line about a row: `[1/3] Row 0: OK (437 ms, 30 tokens, reward 1)`. */
export function rowLine(result: RowResult, number: number, total: number): string {
  const { rowIndex, error, durationMs, reward } = result
  const facts = [duration(durationMs), `${tokensOf(result)} tokens`]
  if (reward !== null) facts.push(`reward ${reward}`)
  const outcome = `${error === null ? 'OK' : 'FAILED'} (${facts.join(', ')})`
  const why = error === null ? '' : ` - ${oneLine(error)}`
  return `[${number}/${total}] Row ${rowIndex}: ${outcome}${why}`
}

/** The lines at the end of a run. */
export function summaryLines({ results, durationMs, stopReason }: TestRun): string[] {
  const passed = results.filter(({ error }) => error === null)
  const rewards = passed.flatMap(({ reward }) => reward ?? [])
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  return [
    `Total: ${results.length}`,
    `Passed: ${passed.length}`,
    `Failed: ${results.length - passed.length}`,
    ...(rewards.length === 0
      ? []
      : [`Mean reward: ${mean.toFixed(3)} (${rewards.length} rewards)`]),
    `Duration: ${duration(durationMs)}`,
    `Total tokens: ${totalTokens(results)}`,
    ...(stopReason === null ? [] : [`Stopped early. ${oneLine(stopReason)}`]),
  ]
}

/** Writes a run as JSON; folders are made when needed. */
export async function writeResults(file: string, run: TestRun): Promise<void> {
  const { results, durationMs, stopReason } = run
  const passed = results.filter(({ error }) => error === null).length
  const document = {
    summary: {
      total: results.length,
      passed,
      failed: results.length - passed,
      total_duration_ms: durationMs,
      total_tokens: totalTokens(results),
      stopped_early: stopReason !== null,
      ...(stopReason === null ? {} : { stop_reason: stopReason }),
    },
    results: results.map((result) => ({
      row_index: result.rowIndex,
      success: result.error === null,
      error: result.error,
      duration_ms: result.durationMs,
      token_usage: {
        prompt_tokens: result.promptTokens,
        completion_tokens: result.completionTokens,
        total_tokens: tokensOf(result),
        num_llm_calls: result.llmCalls,
      },
      reward: result.reward,
      finish_reason: result.finishReason,
    })),
  }
  await mkdir(path.dirname(path.resolve(file)), { recursive: true })
  await writeFile(file, `${JSON.stringify(document, null, 2)}\n`)
}

function tokensOf({ promptTokens, completionTokens }: RowResult): number {
  return promptTokens + completionTokens
}

function totalTokens(results: readonly RowResult[]): number {
  return results.reduce((sum, result) => sum + tokensOf(result), 0)
}

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > longestError ? `${line.slice(0, longestError)}…` : line
}

function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${((ms % 60_000) / 1000).toFixed(0)} s`
}
