import { durationText, oneLine, outcomeText, tokensOf } from './outcome-text.ts'
import type { RowResult } from './row-runner.ts'

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
  const { rowIndex, reward } = result
  const facts = reward === null ? [] : [`reward ${reward}`]
  return `[${number}/${total}] ${outcomeText(`Row ${rowIndex}`, result, facts)}`
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
    `Duration: ${durationText(durationMs)}`,
    `Total tokens: ${totalTokens(results)}`,
    ...(stopReason === null ? [] : [`Stopped early. ${oneLine(stopReason)}`]),
  ]
}

/** What `--output` gets. */
export function toTestDocument({ results, durationMs, stopReason }: TestRun): object {
  const passed = results.filter(({ error }) => error === null).length
  return {
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
}

function totalTokens(results: readonly RowResult[]): number {
  return results.reduce((sum, result) => sum + tokensOf(result), 0)
}
