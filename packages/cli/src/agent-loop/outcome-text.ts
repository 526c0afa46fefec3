import { formatDuration } from '@osmosis/eval'

import type { RowResult } from './row-runner.ts'

const longestError = 200

/** `Row 0: OK (437 ms, 30 tokens)`, with more facts in the brackets and why it failed if it did. */
export function outcomeText(
  name: string,
  result: RowResult,
  moreFacts: readonly string[] = [],
): string {
  const { error, durationMs } = result
  const facts = [durationText(durationMs), `${tokensOf(result)} tokens`, ...moreFacts].join(', ')
  return error === null
    ? `${name}: OK (${facts})`
    : `${name}: FAILED (${facts}) - ${oneLine(error)}`
}

/** Prompt and answers together. */
export function tokensOf({ promptTokens, completionTokens }: RowResult): number {
  return promptTokens + completionTokens
}

/** The text on one line, cut when it is long. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > longestError ? `${line.slice(0, longestError)}…` : line
}

/** `437 ms`, `12.3 s`, `4 min 05 s`. */
export function durationText(ms: number): string {
  return ms < 999.5 ? `${Math.round(ms)} ms` : formatDuration(ms)
}
