import { randomBytes } from 'node:crypto'

import {
  type AgentLoopApp,
  createApp,
  type RolloutAgentLoop,
  type RolloutSettingsInput,
} from '@osmosis/agent-loop'
import {
  createTrainer,
  watchPolicy,
  type WatchedPolicy,
  type ServerAddress,
} from '@osmosis/controller'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { type DatasetRow, readDataset, selectRows } from '@osmosis/eval'
import { serve } from '@osmosis/server'

import { closing, abortOnInterrupt, survivingStrayRejections } from '../command/process.ts'
import { interruptedExitCode } from '../command/exit-codes.ts'
import { writeOutput, assertLogFolder, assertOutputFile } from '../command/output-files.ts'
import {
  printError,
  printOut,
  standardInput,
  standardOutput,
  fromHere,
  namedHere,
} from '../command/surroundings.ts'
import { choosePolicy } from '../inputs/choose-policy.ts'
import { readEnvironment } from '../inputs/environment.ts'
import { checkAgentLoop, loadAgentLoop, type LoadedAgentLoop } from '../inputs/load-entrypoint.ts'
import { commandLogger } from '../serve/listen.ts'
import type { TestFlags } from './test.ts'
import { interactiveSession, Terminal } from './interactive-session.ts'
import {
  rowLine,
  summaryLines,
  toTestDocument,
  type TestRun,
  runRow,
  type RowResult,
  type RowRunnerParts,
} from './run-row.ts'

/** The longest allowed timeout: a user who steps through a rollout takes time. */
const patience = { client: { timeoutSeconds: 3600 } }

/**
 * Runs an agent loop on rows of a dataset and resolves with the exit code: 0 when all rows
 * succeeded (and after an interactive session), 1 otherwise, 130 after Ctrl-C.
 */
export async function testCommand(flags: TestFlags): Promise<number> {
  return survivingStrayRejections(() => testLoop(flags))
}

async function testLoop(flags: TestFlags): Promise<number> {
  if (flags.row !== undefined && !flags.interactive) {
    throw new OsmosisError('invalid_config', '--row can only be used with --interactive.')
  }
  if (flags.interactive && (flags.output !== undefined || flags.quiet)) {
    throw new OsmosisError(
      'invalid_config',
      '--output and --quiet cannot be used with --interactive.',
    )
  }
  return closing(await choosePolicy(flags, readEnvironment()), async ({ policy, name }) => {
    const { loop, file, rows } = await prepareLoop(flags)
    const watched = watchPolicy(policy)
    return closing(await createTrainer({ policy: watched }), async (trainer) =>
      closing(await serveLoop(loop, flags, flags.interactive ? patience : {}), async (served) => {
        const parts = { ...served, trainer, watched, flags }
        const what = `the agent loop ${loop.name} of ${file} with ${name}`
        const rowsOf = `${rows.length} rows of ${flags.dataset}`
        if (!flags.quiet) printError(`Testing ${what} on ${rowsOf}\n`)
        return flags.interactive
          ? stepThroughRows(rows, parts, flags)
          : testRows(rows, parts, flags)
      }),
    )
  })
}

async function stepThroughRows(
  rows: readonly DatasetRow[],
  parts: RowRunnerParts,
  flags: TestFlags,
): Promise<number> {
  const terminal = new Terminal(standardInput(), standardOutput())
  try {
    await interactiveSession(terminal, rows, parts, flags.row)
    return 0
  } finally {
    terminal[Symbol.dispose]()
  }
}

async function testRows(
  rows: readonly DatasetRow[],
  { app, watched, ...parts }: RowRunnerParts & { app: AgentLoopApp; watched: WatchedPolicy },
  flags: TestFlags,
): Promise<number> {
  const interrupt = endRolloutsOnInterrupt(app)
  const hooks = { signal: interrupt.signal }
  try {
    const started = performance.now()
    const results: RowResult[] = []
    for (const row of rows) {
      if (interrupt.signal.aborted || watched.failure !== null) break
      const result = await runRow(row, { ...parts, hooks })
      // An interrupted row is not a result.
      if (interrupt.signal.aborted) break
      results.push(result)
      if (!flags.quiet) printOut(`${rowLine(result, results.length, rows.length)}\n`)
    }
    const reason = interrupt.signal.aborted
      ? errorMessage(interrupt.signal.reason)
      : watched.failure
    // A reason that arrived after the last row did not stop the run.
    const stopReason = results.length < rows.length ? reason : null
    const run: TestRun = { results, durationMs: performance.now() - started, stopReason }
    printOut(`\n${summaryLines(run).join('\n')}\n`)
    if (flags.output !== undefined) await writeOutput(flags.output, toTestDocument(run))
    if (interrupt.signal.aborted) return interruptedExitCode
    return results.every(({ error }) => error === null) && stopReason === null ? 0 : 1
  } finally {
    interrupt.release()
  }
}

/**
 * A signal that Ctrl-C aborts; rollouts in `app` then end immediately, with an error as their result.
 */
function endRolloutsOnInterrupt(app: AgentLoopApp): ReturnType<typeof abortOnInterrupt> {
  const interrupt = abortOnInterrupt()
  const onInterrupt = (): void => {
    app.drain({ waitSeconds: 0 }).catch(() => undefined)
  }
  interrupt.signal.addEventListener('abort', onInterrupt, { once: true })
  return interrupt
}

/** A loop and its rows. */
interface PreparedLoop extends LoadedAgentLoop {
  readonly rows: readonly DatasetRow[]
}

/**
 * Loads and checks a loop, and the rows to run it on.
 *
 * @throws OsmosisError that says which flag is wrong, and AgentLoopValidationError
 */
async function prepareLoop(flags: TestFlags): Promise<PreparedLoop> {
  const loaded = await loadAgentLoop(flags.module)
  await checkAgentLoop(loaded.loop)
  const { offset, limit = null } = flags
  const rows = selectRows(await readDataset(namedHere(flags.dataset)), { offset, limit })
  await assertOutputFile(flags.output)
  await assertLogFolder(flags.log)
  return { ...loaded, rows }
}

/** A loop with a server on this machine. */
interface ServedLoop extends AsyncDisposable {
  readonly app: AgentLoopApp
  readonly server: ServerAddress
}

/**
 * Serves a loop as in production, on a free port of this machine and with a generated key; logs only
 * errors. The caller disposes of it.
 */
async function serveLoop(
  loop: RolloutAgentLoop,
  { log }: Pick<TestFlags, 'log'>,
  settings: RolloutSettingsInput = {},
): Promise<ServedLoop> {
  const apiKey = randomBytes(32).toString('base64url')
  const logger = commandLogger({ logLevel: 'error', logFormat: 'auto' })
  const app = createApp(loop, { apiKey, logger, debugDir: log && fromHere(log), settings })
  const listening = await serve(app, { port: 0, handleSignals: false })
  return {
    app,
    server: { url: listening.url, apiKey },
    [Symbol.asyncDispose]: () => listening.close(),
  }
}
