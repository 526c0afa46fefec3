import type { EvalRunFlags } from '../run.ts'
import { junitLines, testCases } from '../export/junit-report.ts'
import { writeTexts } from '../export/write-texts.ts'
import type { ReportedRun } from '../show/shown-run.ts'

/** Whether a run writes files for other programs at its end. */
export function hasResultFiles({ junit }: EvalRunFlags): boolean {
  return junit !== undefined
}

/**
 * Writes the result of a run for other programs.
 *
 * @throws OsmosisError with code `storage_error`
 */
export async function writeResultFiles(
  { models: [model] }: ReportedRun,
  { junit }: EvalRunFlags,
): Promise<void> {
  if (junit !== undefined) await writeTexts(junit, junitLines(model, testCases(model)))
}
