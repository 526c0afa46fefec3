import { randomBytes } from 'node:crypto'

import { type AgentLoopApp, createApp, type RolloutAgentLoop } from '@osmosis/agent-loop'
import {
  createController,
  createTrainer,
  watchPolicy,
  type WatchedPolicy,
  type ServerAddress,
} from '@osmosis/controller'
import { errorMessage } from '@osmosis/core'
import { type DatasetRow, readDataset, selectRows } from '@osmosis/eval'
import { serve } from '@osmosis/server'

import {
  printOut,
  standardInput,
  standardOutput,
  resolvePath,
  displayPath,
  workingFolder,
} from '../../command/command-context.ts'
import { completeEnvironment, readEnvironment } from '../../command/environment.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import {
  writeOutput,
  assertLogFolder,
  assertOutputFile,
} from '../../command/output/output-files.ts'
import { closing, abortOnInterrupt, survivingStrayRejections } from '../../command/process.ts'
import { outputWidth, printMessage, wrapped } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import { type ChosenPolicy, choosePolicy } from '../../inputs/choose-policy.ts'
import { checkAgentLoop, loadEntrypoint } from '../../inputs/load-entrypoint.ts'
import { namingEndpoint } from '../../inputs/policy-advice.ts'
import { commandLogger } from '../../serve/listen.ts'
import { startServerProcess, type ServerProcess } from '../../serve/server-process.ts'
import type { TestFlags } from '../test.ts'
import { interactiveSession, Terminal } from './interactive-session.ts'
import {
  rowLine,
  summaryLines,
  toTestDocument,
  type TestRun,
  runLoopRow,
  runWorkflowRow,
  type RowResult,
  type LoopRunnerParts,
} from './run-row.ts'

/** The longest allowed timeout: a user who steps through a rollout takes time. */
const patience = { client: { timeoutSeconds: 3600 } }

/**
 * Runs a workflow or an agent loop on rows of a dataset and resolves with the exit code: 0 when all rows
 * succeeded (and after an interactive session), 1 otherwise, 130 after Ctrl-C.
 */
export async function testCommand(flags: TestFlags): Promise<number> {
  return survivingStrayRejections(() => test(flags))
}

async function test(flags: TestFlags): Promise<number> {
  if (flags.row !== undefined && !flags.interactive) {
    throw invalid('--row can only be used with --interactive.')
  }
  if (flags.interactive && (flags.output !== undefined || flags.quiet)) {
    throw invalid('--output and --quiet cannot be used with --interactive.')
  }
  return closing(await choosePolicy(flags, completeEnvironment()), async (chosen) => {
    const { policy, name } = chosen
    const loaded = await loadEntrypoint(flags.module)
    if (loaded.kind === 'agent-loop') await checkAgentLoop(loaded.loop)
    const { offset, limit = null } = flags
    const rows = selectRows(await readDataset(displayPath(flags.dataset)), { offset, limit })
    await assertOutputFile(flags.output)
    await assertLogFolder(flags.log)
    const watched = watchPolicy(policy)
    const what =
      loaded.kind === 'agent-loop' ? `the agent loop ${loaded.loop.name} of` : 'the workflow of'
    if (!flags.quiet) {
      const rowsOf = `${rows.length} rows of ${flags.dataset}`
      printMessage(`Testing ${what} ${loaded.file} with ${name} on ${rowsOf}`)
    }
    return loaded.kind === 'agent-loop'
      ? testLoop(loaded.loop, rows, { chosen, watched }, flags)
      : testWorkflow(loaded.file, rows, { chosen, watched }, flags)
  })
}

/** The policy of a test, and the same with a look at its failures. */
interface TestedPolicy {
  readonly chosen: ChosenPolicy
  readonly watched: WatchedPolicy
}

async function testLoop(
  loop: RolloutAgentLoop,
  rows: readonly DatasetRow[],
  { chosen, watched }: TestedPolicy,
  flags: TestFlags,
): Promise<number> {
  return closing(await createTrainer({ policy: watched }), async (trainer) =>
    closing(await serveLoop(loop, flags), async ({ app, server }) => {
      const parts = { server, trainer: namingEndpoint(trainer, chosen), flags }
      if (flags.interactive) return stepThroughRows(rows, parts, flags)
      const interrupt = abortOnInterrupt()
      // Rollouts then end immediately, with an error as their result.
      const drain = (): void => void app.drain({ waitSeconds: 0 }).catch(() => undefined)
      const { signal } = interrupt
      signal.addEventListener('abort', drain, { once: true })
      const run = async (row: DatasetRow): Promise<RowResult> =>
        runLoopRow(row, { ...parts, hooks: { signal } })
      try {
        return await testRows(rows, { run, watched, signal }, flags)
      } finally {
        interrupt.release()
      }
    }),
  )
}

/** The workflow runs in a process of its own, as in an evaluation. */
async function testWorkflow(
  file: string,
  rows: readonly DatasetRow[],
  { chosen, watched }: TestedPolicy,
  flags: TestFlags,
): Promise<number> {
  const { maxTurns, maxTokens, temperature, log, interactive } = flags
  const ofLoops = { maxTurns, maxTokens, temperature, log, interactive }
  if (Object.values(ofLoops).some((value) => value !== undefined)) {
    throw invalid(
      '--max-turns, --max-tokens, --temperature, --log and --interactive are for agent loops. Set them in the workflow.',
    )
  }
  const interrupt = abortOnInterrupt()
  const { signal } = interrupt
  try {
    return await closing(await startedServer(file, signal), async (server) => {
      if (server === undefined) return interruptedExitCode
      if (server.groupMinSize !== null) {
        throw invalid(
          'The grader compares the attempts at a row: run several with osmosis eval run.',
        )
      }
      return closing(await createController({ policy: watched, server }), async (controller) => {
        const sender = namingEndpoint(controller, chosen)
        const run = async (row: DatasetRow): Promise<RowResult> =>
          runWorkflowRow(row, sender, signal)
        return testRows(rows, { run, watched, signal }, flags)
      })
    })
  } finally {
    interrupt.release()
  }
}

/** Serves a workflow; undefined when an interrupt ended the start. */
async function startedServer(
  file: string,
  signal: AbortSignal,
): Promise<ServerProcess | undefined> {
  const options = { entrypoint: resolvePath(file), folder: workingFolder(), env: readEnvironment() }
  try {
    return await startServerProcess(options, signal)
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}

async function stepThroughRows(
  rows: readonly DatasetRow[],
  parts: LoopRunnerParts,
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
  parts: {
    readonly run: (row: DatasetRow) => Promise<RowResult>
    readonly watched: WatchedPolicy
    readonly signal: AbortSignal
  },
  flags: TestFlags,
): Promise<number> {
  const { run: runRow, watched, signal } = parts
  const started = performance.now()
  const results: RowResult[] = []
  for (const row of rows) {
    if (signal.aborted || watched.failure !== null) break
    const result = await runRow(row)
    // An interrupted row is not a result.
    if (signal.aborted) break
    results.push(result)
    if (!flags.quiet) printWrapped(rowLine(result, results.length, rows.length))
  }
  const reason = signal.aborted ? errorMessage(signal.reason) : watched.failure
  // A reason that arrived after the last row did not stop the run.
  const stopReason = results.length < rows.length ? reason : null
  const run: TestRun = { results, durationMs: performance.now() - started, stopReason }
  printWrapped('', ...summaryLines(run))
  if (flags.output !== undefined) await writeOutput(flags.output, toTestDocument(run))
  if (signal.aborted) return interruptedExitCode
  return results.every(({ error }) => error === null) && stopReason === null ? 0 : 1
}

/** Prints results, wrapped where the terminal ends. */
function printWrapped(...lines: readonly string[]): void {
  printOut(`${wrapped(lines.join('\n'), outputWidth()).join('\n')}\n`)
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
  { log, interactive }: Pick<TestFlags, 'log' | 'interactive'>,
): Promise<ServedLoop> {
  const apiKey = randomBytes(32).toString('base64url')
  const settings = interactive ? patience : {}
  const logger = commandLogger('error')
  const app = createApp(loop, { apiKey, logger, debugDir: log && resolvePath(log), settings })
  const listening = await serve(app, { port: 0, handleSignals: false })
  return {
    app,
    server: { url: listening.url, apiKey },
    [Symbol.asyncDispose]: () => listening.close(),
  }
}
