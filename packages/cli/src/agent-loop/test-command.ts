import path from 'node:path'

import { createApp, type AgentLoopApp } from '@osmosis/agent-loop'
import { OsmosisError } from '@osmosis/core'
import { readDataset, type DatasetRow } from '@osmosis/eval'
import { createStderrLogger, serve } from '@osmosis/server'

import { choosePolicy } from '../choose-policy.ts'
import { abortOnInterrupt, interruptedExitCode } from '../eval-run/interrupt.ts'
import { checkAgentLoop } from './check-agent-loop.ts'
import { interactiveSession } from './interactive-session.ts'
import { loadAgentLoop } from './load-agent-loop.ts'
import { LocalTrainer } from './local-trainer.ts'
import { rowLine, summaryLines, writeResults, type TestRun } from './row-report.ts'
import { runRow, type RowResult, type RowRunnerParts } from './row-runner.ts'
import type { TestFlags } from './test-flags.ts'
import { Terminal } from './terminal.ts'

/** The longest time a setting allows: somebody who steps through a rollout thinks. */
const patientSeconds = 3600

/**
 * Runs an agent loop on rows of a dataset and resolves with the exit code: 0 when all went well
 * (and after an interactive session), 1 when not, 130 after Ctrl-C.
 */
export async function testCommand(flags: TestFlags): Promise<number> {
  if (flags.row !== undefined && !flags.interactive) {
    throw new OsmosisError('invalid_config', '--row can only be used with --interactive.')
  }
  const environment = process.env // oxlint-disable-line node/no-process-env
  const { policy, name } = await choosePolicy(flags, environment)
  const { loop, file } = await loadAgentLoop(flags.module)
  await checkAgentLoop(loop)
  const rows = await chosenRows(flags)

  const trainer = new LocalTrainer(policy)
  await using listening = await serve(trainer, { port: 0, handleSignals: false })
  await using app = createApp(loop, {
    logger: createStderrLogger('error'),
    debugDir: flags.log,
    ...(flags.interactive ? { settings: { client: { timeoutSeconds: patientSeconds } } } : {}),
  })
  const parts = { app, trainer, trainerUrl: listening.url, flags }
  process.stderr.write(
    `Testing the agent loop ${loop.name} of ${file} with ${name} on ${rows.length} rows of ${path.relative('', flags.dataset)}\n`,
  )
  if (!flags.interactive) return await testRows(rows, { ...parts, app }, flags)
  using terminal = new Terminal(process.stdin, process.stdout)
  await interactiveSession(terminal, rows, parts, flags.row)
  return 0
}

async function chosenRows({ dataset, offset, limit }: TestFlags): Promise<DatasetRow[]> {
  const all = await readDataset(dataset)
  const rows = all.slice(offset, limit === undefined ? undefined : offset + limit)
  if (rows.length > 0) return rows
  throw new OsmosisError(
    'invalid_dataset',
    `No rows to test: ${dataset} has ${all.length}, and --offset and --limit leave none of them.`,
  )
}

async function testRows(
  rows: readonly DatasetRow[],
  parts: RowRunnerParts & { app: AgentLoopApp },
  flags: TestFlags,
): Promise<number> {
  const interrupt = abortOnInterrupt()
  const onInterrupt = (): void => {
    // What runs ends with an error, which is its result.
    parts.app.drain({ waitSeconds: 0 }).catch(() => undefined)
  }
  interrupt.signal.addEventListener('abort', onInterrupt, { once: true })
  try {
    const started = performance.now()
    const results: RowResult[] = []
    for (const row of rows) {
      if (interrupt.signal.aborted || parts.trainer.systemicFailure !== null) break
      const result = await runRow(row, parts)
      results.push(result)
      if (!flags.quiet) process.stdout.write(`${rowLine(result, results.length, rows.length)}\n`)
    }
    const stopReason = results.length < rows.length ? parts.trainer.systemicFailure : null
    const run: TestRun = { results, durationMs: performance.now() - started, stopReason }
    process.stdout.write(`\n${summaryLines(run).join('\n')}\n`)
    if (flags.output !== undefined) await writeResults(flags.output, run)
    if (interrupt.signal.aborted) return interruptedExitCode
    return results.every(({ error }) => error === null) && stopReason === null ? 0 : 1
  } finally {
    interrupt.release()
  }
}
