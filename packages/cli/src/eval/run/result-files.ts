import { appendFile } from 'node:fs/promises'

import { errorMessage } from '@osmosis/core'

import { environment, fromHere, printError, redaction } from '../../command/surroundings.ts'
import { junitLines, testCases } from '../export/junit-report.ts'
import { runMarkdown } from '../export/run-markdown.ts'
import { writeTexts } from '../export/write-texts.ts'
import type { EvalRunFlags } from '../run.ts'
import type { ReportedRun } from '../show/shown-run.ts'

/** Whether a run writes files for other programs at its end. */
export function hasResultFiles({ junit }: EvalRunFlags): boolean {
  return junit !== undefined || jobSummaryFile() !== undefined
}

/**
 * Writes the result of a run for other programs: as JUnit XML, and as Markdown for the page of a job of GitHub
 * Actions.
 *
 * @throws OsmosisError with code `storage_error`
 */
export async function writeResultFiles(run: ReportedRun, { junit }: EvalRunFlags): Promise<void> {
  const [model] = run.models
  const summary = jobSummaryFile()
  if (summary !== undefined) await appendSummary(summary, run)
  if (junit !== undefined) await writeTexts(junit, junitLines(model, testCases(model)))
}

/** The file whose content GitHub shows with the job; all steps append to it. */
function jobSummaryFile(): string | undefined {
  return environment()['GITHUB_STEP_SUMMARY'] || undefined
}

async function appendSummary(file: string, run: ReportedRun): Promise<void> {
  try {
    await appendFile(fromHere(file), `${redaction().text(runMarkdown(run))}\n`)
  } catch (error) {
    // No flag requested it.
    printError(
      `warning: Cannot append the result to GITHUB_STEP_SUMMARY, ${file}: ${errorMessage(error)}\n`,
    )
  }
}
