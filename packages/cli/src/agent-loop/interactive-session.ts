import type { DatasetRow } from '@osmosis/eval'

import { messageLines } from './message-lines.ts'
import { rowLine } from './row-report.ts'
import { runRow, type RowRunnerParts } from './row-runner.ts'
import { abortedByUser, StepThrough } from './step-through.ts'
import type { Terminal } from './terminal.ts'

/**
 * Lets a person choose rows and step through them, until they have enough.
 *
 * @param firstRow - index of the row to begin with, instead of asking
 */
export async function interactiveSession(
  terminal: Terminal,
  rows: readonly DatasetRow[],
  parts: RowRunnerParts,
  firstRow: number | undefined,
): Promise<void> {
  let said: string | null = firstRow === undefined ? '' : String(firstRow)
  for (;;) {
    const row = said === '' ? undefined : rowNamed(terminal, rows, said)
    if (row !== undefined) await stepThroughRow(terminal, row, parts)
    said = await terminal.ask(`Select a row to test [${range(rows)}] or 'q' to quit: `)
    if (said === null || ['q', 'quit', 'exit'].includes(said.toLowerCase())) break
  }
  terminal.print('Interactive session ended.')
}

async function stepThroughRow(
  terminal: Terminal,
  row: DatasetRow,
  parts: RowRunnerParts,
): Promise<void> {
  const steps = new StepThrough(terminal)
  terminal.print('', `Row ${row.sourceRowIndex}`)
  const hooks = { onAccepted: steps.setTools, onAnswer: steps.onAnswer }
  const result = await runRow(row, { ...parts, hooks })
  const outcome = steps.left ? { ...result, error: abortedByUser } : result
  terminal.print('', rowLine(outcome, 1, 1))
  if (steps.left) return
  if (result.finishReason !== null) terminal.print(`Finish reason: ${result.finishReason}`)
  const next = await terminal.ask('[m]essages, or Enter to go on: ')
  if (next?.toLowerCase().startsWith('m')) terminal.print(...messageLines(result.finalMessages))
}

function rowNamed(
  terminal: Terminal,
  rows: readonly DatasetRow[],
  said: string,
): DatasetRow | undefined {
  if (!/^\d+$/.test(said)) {
    terminal.print("Please enter a valid row number or 'q' to quit.")
    return undefined
  }
  const row = rows.find(({ sourceRowIndex }) => sourceRowIndex === Number(said))
  if (row === undefined) {
    terminal.print(`Invalid row index: ${said}. Valid range: ${range(rows)}`)
  }
  return row
}

function range(rows: readonly DatasetRow[]): string {
  return `${rows[0]?.sourceRowIndex}-${rows.at(-1)?.sourceRowIndex}`
}
